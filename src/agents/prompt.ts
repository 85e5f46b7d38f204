import { readFileSync } from "node:fs";
import { WavesmithError } from "../domain/errors.ts";

type PromptName = "task" | "planner" | "fix" | "review" | "second-look" | "checks";
export type Prompts = Readonly<Record<PromptName, string>>;

/** Reads the prompts beside this file. */
export function loadPrompts(): Prompts {
  const read = (name: PromptName) => readFileSync(new URL(`./prompts/${name}.md`, import.meta.url), "utf8");
  const work = { task: read("task"), planner: read("planner"), fix: read("fix") };
  return { ...work, review: read("review"), "second-look": read("second-look"), checks: read("checks") };
}

/**
 * Replaces each `{{name}}` once; a value is never read as a template. A line that holds only a
 * placeholder disappears, with the blank line after it, when its value is empty.
 */
export function render(template: string, values: Readonly<Record<string, string>>): string {
  const text = template.replace(/^\{\{(\w+)\}\}\n\n?|\{\{(\w+)\}\}/gm, (whole, block, inline) => {
    const name: string = block ?? inline;
    if (!Object.hasOwn(values, name))
      throw new WavesmithError("internal", `a prompt asks for {{${name}}}, which has no value`);
    const value = values[name]!.trim();
    if (block === undefined) return value;
    return value === "" ? "" : `${value}${whole.slice(`{{${name}}}`.length)}`;
  });
  return `${text.trimEnd()}\n`;
}

/**
 * Quotes untrusted text in a fence longer than any run of backticks within it, so that nothing
 * inside can close it. The label is reduced to harmless characters, because it may name a task or
 * path.
 */
export function fence(label: string, text: string): string {
  const clean = printable(text).replace(/\n+$/, "");
  const longest = Math.max(2, ...[...clean.matchAll(/`+/g)].map((run) => run[0].length));
  const ticks = "`".repeat(longest + 1);
  return `${ticks}data ${label.replace(/[^\w .,:/@()-]/g, "_").slice(0, 100)}\n${clean}\n${ticks}`;
}

/** Removes terminal sequences and control characters except newline and tab. */
export function printable(text: string): string {
  return text
    .replace(/\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g, "")
    .replace(/\r\n?/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "");
}

/** Cuts a text to at most `most` UTF-16 units and marks the cut. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = /[\uD800-\uDBFF]/.test(text[most - 2]!) ? most - 2 : most - 1; // never half a character
  return `${text.slice(0, end)}…`;
}

/** Returns the end of a text, starting at the beginning of a line if possible. */
export function tail(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = text.slice(-most);
  return end.slice(end.indexOf("\n") + 1);
}
