import type { Finding } from "../../domain/gate/finding.ts";
import { isFixture } from "../test-files.ts";
import { type FileChange, staticFinding } from "./changes.ts";

/**
 * Finds complete `<<<<<<< … ======= … >>>>>>>` groups whose first or last line this change added. A
 * lone `=======` underlines a heading, and markers in a document's code fence are intended.
 */
export function findConflictMarkers(change: FileChange): Finding[] {
  if (change.after === null) return [];
  const added = new Set(change.added.map((line) => line.line));
  const severity = isFixture(change.path) ? "medium" : "critical";
  return findGroups(change.after, /\.(?:md|mdx|markdown|rst|adoc)$/i.test(change.path))
    .filter((group) => added.has(group.start) || added.has(group.end))
    .map((group) => {
      const message = `${change.path} has an unresolved conflict (lines ${group.start} to ${group.end})`;
      return staticFinding("conflict-marker", severity, message, { file: change.path, line: group.start });
    });
}

interface Group {
  readonly start: number;
  readonly end: number;
}

function findGroups(text: string, isDocument: boolean): Group[] {
  const groupList: Group[] = [];
  let start = 0;
  let divided = false;
  let fenced = false;
  text.split(/\r?\n/).forEach((line, index) => {
    if (isDocument && /^\s{0,3}(?:```|~~~)/.test(line)) fenced = !fenced;
    if (fenced) return;
    if (/^<{7}(?: |$)/.test(line)) [start, divided] = [index + 1, false];
    else if (start > 0 && /^={7}$/.test(line)) divided = true;
    else if (divided && /^>{7}(?: |$)/.test(line)) {
      groupList.push({ start, end: index + 1 });
      [start, divided] = [0, false];
    }
  });
  return groupList;
}
