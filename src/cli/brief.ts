// What a person may say beside a brief, since there is no plan file yet in which it could stand.
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { messageOf, WavesmithError } from "../domain/errors.ts";

/**
 * A source as in a plan file: a repository when it is written as one, else a folder. Fails with
 * `usage` without that.
 */
export function sourceFrom(text: string): Record<string, string> {
  const [place = "", ref] = text.split(/#(?=[^#]*$)/);
  const named = ref === undefined || ref === "" ? {} : { ref };
  if (/^(https?|ssh|git|file):\/\/|^[\w.-]+@[\w.-]+:/.test(place)) return { git: place, ...named };
  if (ref !== undefined && ref !== "") return { git: resolve(place), ...named };
  if (statSync(text, { throwIfNoEntry: false })?.isDirectory() === true) return { path: resolve(text) };
  throw new WavesmithError("usage", `there is no folder ${resolve(text)}`, {
    remedy: "--source takes a folder, or the URL of a git repository, with #REF where it is not its HEAD",
  });
}

/**
 * The limits of `usd=5,tokens=2000000,wallClock=2h`, by the names that `limits.budget` of a plan
 * file has; whether they are limits the plan's own check says. Fails with `usage` for text that
 * names none, or one twice.
 */
export function budgetFrom(text: string): Record<string, unknown> {
  const budget: Record<string, unknown> = {};
  for (const part of text.split(",")) {
    const [, name, value] = /^\s*([a-zA-Z]+)\s*=\s*(\S+)\s*$/.exec(part) ?? [];
    if (name === undefined || value === undefined || Object.hasOwn(budget, name)) {
      throw new WavesmithError("usage", `--budget ${text} is no list of limits`, {
        remedy: "write usd=5, tokens=2000000 or wallClock=2h, or several of them with commas between",
      });
    }
    const number = Number(value);
    budget[name] = Number.isNaN(number) ? value : number;
  }
  return budget;
}

/** The text of a prompt's file. Fails with `usage`. */
export async function promptFrom(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new WavesmithError("usage", `the planner's prompt cannot be read: ${messageOf(cause)}`, {
      remedy: "name a file; docs/agents.md says what stands in it",
      cause,
    });
  }
}
