import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt } from "../../domain/known.ts";
import { toRepositoryPath, treeRelative } from "../text.ts";

/** Reads a possible failure further, on demand; null if it turns out not to be one. */
export type Lead = () => Finding | null;

/** Finds, in one pass, the failures that one family of tools reports. */
export type FailureReader = (lines: readonly string[]) => Lead[];

export interface SourcePlace {
  readonly file: string;
  readonly line: number;
}

const longestMessage = 500;
const longestPath = 1_000;

/** Makes a finding for a failure, with repository paths and a one-line message. */
export function createFailure(rule: string, message: string, place: Partial<SourcePlace> = {}): Finding {
  const text = treeRelative(message.slice(0, 2 * longestMessage))
    .replace(/\s+/g, " ")
    .trim();
  return {
    rule,
    severity: "high",
    message: text.length > longestMessage ? `${text.slice(0, longestMessage)}…` : text,
    file: place.file === undefined || place.file === "" ? null : toRepositoryPath(place.file.slice(0, longestPath)),
    line: place.line !== undefined && Number.isInteger(place.line) && place.line > 0 ? place.line : null,
    confidence: null,
  };
}

/** Returns `name: reason`, or just the part that is not empty. */
export function joinNameAndReason(name: string, reason: string): string {
  return [name.trim(), reason.trim()].filter((part) => part !== "").join(": ");
}

/**
 * Returns the first JavaScript stack frame in these lines that belongs neither to Node nor to a
 * dependency.
 */
export function findOwnFrame(lines: readonly string[]): SourcePlace | null {
  for (const line of lines) {
    const match =
      /^\s*(?:at\s|❯\s)(?:.*\()?((?:file:\/\/)?[^\s():]+(?::\\[^\s():]+)?):(\d+):\d+\)?\s*$/.exec(line) ?? null;
    if (match === null || /node_modules|^node:|^internal\//.test(itemAt(match, 1))) continue;
    return { file: itemAt(match, 1), line: Number(match[2]) };
  }
  return null;
}

/** Returns the lines from `start` to the first that `ends` matches, at most `most`. */
export function linesUntil(
  lines: readonly string[],
  start: number,
  ends: (line: string) => boolean,
  maxLines = 80,
): readonly string[] {
  const foundLines: string[] = [];
  for (const line of lines.slice(start, start + maxLines)) {
    if (ends(line)) break;
    foundLines.push(line);
  }
  return foundLines;
}

/** Joins the first meaningful lines, because an assertion's message often has two. */
export function firstWords(lines: readonly string[], maxLines = 3): string {
  const words: string[] = [];
  for (const line of lines) {
    const text = line.trim();
    if (text === "") continue;
    if (/^(?:at |❯ |\d+\||stack:|generatedMessage)/.test(text)) break;
    words.push(text);
    if (words.length === maxLines) break;
  }
  return words.join(" ");
}
