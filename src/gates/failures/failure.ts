import type { Finding } from "../../domain/finding.ts";
import { repositoryPath, treeRelative } from "../text.ts";

/**
 * A place in the output that tells of a failure, read further only when it is asked for; null: it
 * was none.
 */
export type Lead = () => Finding | null;

/** Finds, in one pass, where one family of tools reports failures. */
export type FailureReader = (lines: readonly string[]) => Lead[];

export interface Place {
  readonly file: string;
  readonly line: number;
}

const longestMessage = 500;
const longestPath = 1_000;

/**
 * A finding for something that failed; paths as the repository knows them, the message on one line.
 */
export function failure(rule: string, message: string, place: Partial<Place> = {}): Finding {
  const text = treeRelative(message.slice(0, 2 * longestMessage))
    .replace(/\s+/g, " ")
    .trim();
  return {
    rule,
    severity: "high",
    message: text.length > longestMessage ? `${text.slice(0, longestMessage)}…` : text,
    file: place.file === undefined || place.file === "" ? null : repositoryPath(place.file.slice(0, longestPath)),
    line: place.line !== undefined && Number.isInteger(place.line) && place.line > 0 ? place.line : null,
    confidence: null,
  };
}

/** `name: reason`, or the one there is. */
export function named(name: string, reason: string): string {
  return [name.trim(), reason.trim()].filter((part) => part !== "").join(": ");
}

/**
 * The first stack frame of JavaScript in these lines that is neither Node's own nor a dependency's.
 */
export function ownFrame(lines: readonly string[]): Place | null {
  for (const line of lines) {
    const match =
      /^\s*(?:at\s|❯\s)(?:.*\()?((?:file:\/\/)?[^\s():]+(?::\\[^\s():]+)?):(\d+):\d+\)?\s*$/.exec(line) ?? null;
    if (match === null || /node_modules|^node:|^internal\//.test(match[1]!)) continue;
    return { file: match[1]!, line: Number(match[2]) };
  }
  return null;
}

/** The lines from `start` until one that `ends` says is no longer part, at most `most`. */
export function until(
  lines: readonly string[],
  start: number,
  ends: (line: string) => boolean,
  most = 80,
): readonly string[] {
  const found: string[] = [];
  for (const line of lines.slice(start, start + most)) {
    if (ends(line)) break;
    found.push(line);
  }
  return found;
}

/** The first lines that say something, as one: an assertion's message is often on two. */
export function firstWords(lines: readonly string[], most = 3): string {
  const words: string[] = [];
  for (const line of lines) {
    const text = line.trim();
    if (text === "") continue;
    if (/^(?:at |❯ |\d+\||stack:|generatedMessage)/.test(text)) break;
    words.push(text);
    if (words.length === most) break;
  }
  return words.join(" ");
}
