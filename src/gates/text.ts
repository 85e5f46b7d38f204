import { withoutUsage } from "../domain/gate/output-tail.ts";
import { itemAt } from "../domain/known.ts";

// The output of tools is untrusted text of any size. We truncate lines before matching, so that
// every pattern stays fast.

const ansi = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const longestLine = 2_000;

/** Removes terminal colours, cursor movements and titles. */
function stripAnsi(text: string): string {
  return text.replace(ansi, "");
}

/**
 * Splits a tool's output into lines without colours and without text that a carriage return
 * overwrote, each at most 2,000 characters.
 */
export function outputLines(output: string): string[] {
  return stripAnsi(output)
    .split("\n")
    .map((line) => {
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      return text.slice(text.lastIndexOf("\r") + 1).slice(0, longestLine);
    });
}

const tailLines = 20;
const tailBytes = 4_096;

/** Returns the last 20 lines, at most 4 KiB of UTF-8. */
export function evidenceTail(output: string): string {
  const lines = withoutUsage(outputLines(output));
  while (lines.at(-1)?.trim() === "") lines.pop();
  const text = Buffer.from(lines.slice(-tailLines).join("\n"));
  if (text.length <= tailBytes) return text.toString();
  let start = text.length - tailBytes;
  while ((itemAt(text, start) & 0xc0) === 0x80) start += 1; // never start inside a character
  return text.subarray(start).toString();
}

// Gates run in `trees/<build>/gate-<n>`, which changes with each round, so findings use the
// repository's paths.
const treePrefix = /(?:file:\/\/)?(?:\/[^\s:()'"<>]*)?\/trees\/[^/\s]+\/[^/\s:()'"]+\//g;

/** Removes the tree's own path from a path or message. */
export function treeRelative(text: string): string {
  return text.replace(treePrefix, "").replace(/^file:\/\//, "");
}

/** Converts a path printed by a tool to the repository's path. */
export function toRepositoryPath(path: string): string {
  return treeRelative(path.trim()).replace(/^(?:\.\/)+/, "");
}
