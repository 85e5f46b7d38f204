// Options of `build --brief` that would otherwise be in a plan file.
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

/**
 * Reads a source the way a plan file does: a git URL, or else a folder. Fails with `usage` if the
 * folder does not exist.
 */
export function sourceFrom(text: string): Record<string, string> {
  const [place = "", ref] = text.split(/#(?=[^#]*$)/);
  const named = ref === undefined || ref === "" ? {} : { ref };
  if (/^(https?|ssh|git|file):\/\/|^[\w.-]+@[\w.-]+:/.test(place)) return { git: place, ...named };
  if (ref !== undefined && ref !== "") return { git: resolve(place), ...named };
  if (statSync(text, { throwIfNoEntry: false })?.isDirectory() === true) return { path: resolve(text) };
  throw new WavesmithError("usage", `there is no folder ${resolve(text)}`, {
    remedy: "--source takes a folder, or a git URL, with #REF unless it is HEAD",
  });
}

/**
 * Parses `usd=5,tokens=2000000,wallClock=2h` into the keys of a plan's `limits.budget`. The plan's
 * own check validates the values. Fails with `usage` if a limit has no name or appears twice.
 */
export function budgetFrom(text: string): Record<string, unknown> {
  const budget: Record<string, unknown> = {};
  for (const part of text.split(",")) {
    const [, name, value] = /^\s*([a-zA-Z]+)\s*=\s*(\S+)\s*$/.exec(part) ?? [];
    if (name === undefined || value === undefined || Object.hasOwn(budget, name)) {
      throw new WavesmithError("usage", `--budget ${text} is not a list of limits`, {
        remedy: "write usd=5, tokens=2000000 or wallClock=2h, or several, separated by commas",
      });
    }
    const number = Number(value);
    budget[name] = Number.isNaN(number) ? value : number;
  }
  return budget;
}

/** Reads the file of a prompt. Fails with `usage`. */
export async function promptFrom(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new WavesmithError("usage", `the planner's prompt cannot be read: ${messageOf(cause)}`, {
      remedy: "give a readable file; docs/agents.md describes its content",
      cause,
    });
  }
}
