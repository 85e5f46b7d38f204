// What tools print is untrusted text of any size: lines are cut before a pattern sees them, so that
// no pattern can be made slow.

const ansi = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const longestLine = 2_000;

/** Removes terminal colours, cursor movements and titles. */
function stripAnsi(text: string): string {
  return text.replace(ansi, "");
}

/**
 * The lines of a tool's output: no colours, what a carriage return overwrote left out, each at most
 * 2,000 characters.
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

/** The last 20 lines, at most 4 KiB of UTF-8. */
export function outputTail(output: string): string {
  const lines = outputLines(output);
  while (lines.at(-1)?.trim() === "") lines.pop();
  const text = Buffer.from(lines.slice(-tailLines).join("\n"));
  if (text.length <= tailBytes) return text.toString();
  let start = text.length - tailBytes;
  while ((text[start]! & 0xc0) === 0x80) start += 1; // never begin inside a character
  return text.subarray(start).toString();
}

// Gates run in `trees/<build>/gate-<n>`, which differs from round to round: a finding names the
// path in the repository.
const treePrefix = /(?:file:\/\/)?(?:\/[^\s:()'"<>]*)?\/trees\/[^/\s]+\/[^/\s:()'"]+\//g;

/** Takes the tree's own place out of a path or message. */
export function treeRelative(text: string): string {
  return text.replace(treePrefix, "").replace(/^file:\/\//, "");
}

/** A path as the repository knows it, from one that a tool printed. */
export function repositoryPath(path: string): string {
  return treeRelative(path.trim()).replace(/^(?:\.\/)+/, "");
}
