import { z } from "zod";
import type { Finding } from "../../domain/finding.ts";
import { isTestFile } from "../test-files.ts";
import { type AddedLine, type FileChange, staticFinding } from "./changes.ts";
import { type Skip, type TestLanguage, testLanguage } from "./test-languages.ts";

// W7: tests may not be weakened unless the task says `mayChangeTests`. Compared are numbers of cases and assertions,
// and what was added that switches a test off or makes it empty.

interface Contents {
  readonly cases: number;
  /** Names of the cases, where they could be read. */
  readonly names: readonly string[];
  readonly assertions: number;
  readonly tables: number;
}

const rules = new Set(["weakened-test", "deleted-test", "skipped-test", "focused-test", "trivial-assertion"]);

/** Whether a finding is of this file's. */
export const isWeakenedTest = (finding: Finding): boolean => rules.has(finding.rule);

/** Findings for tests that were deleted, reduced or switched off. `changes`: those whose tasks may not change tests. */
export function weakenedTests(changes: readonly FileChange[]): Finding[] {
  // Cases that turned up in another file were moved, not dropped.
  const arrived = new Set(changes.flatMap(newNames));
  return changes.flatMap((change) => [
    ...reducedTests(change, arrived),
    ...switchedOff(change),
    ...trivialAssertions(change),
    ...emptiedScript(change),
  ]);
}

function newNames(change: FileChange): string[] {
  const language = holdsTests(change.path, change.after);
  if (language === null) return [];
  const known = new Set(change.before === null ? [] : contentsOf(language, change.before).names);
  return contentsOf(language, change.after!).names.filter((name) => !known.has(name));
}

/** The language of a file with tests; Rust keeps them beside the code. */
function holdsTests(path: string, text: string | null): TestLanguage | null {
  if (text === null) return null;
  const language = testLanguage(path);
  const inline = path.endsWith(".rs") && /#\[cfg\(test\)\]|#\[(?:\w+::)*test\]/.test(text);
  return isTestFile(path) || inline ? language : null;
}

function contentsOf(language: TestLanguage, text: string): Contents {
  const code = withoutComments(language, text);
  const cases = [...code.matchAll(language.cases)];
  return {
    cases: cases.length,
    names: cases
      .map((match) => match.slice(1).find((name) => name !== undefined && name !== ""))
      .filter((name) => name !== undefined),
    assertions: count(code, language.assertions) - count(code, language.trivial),
    tables: count(code, language.tables),
  };
}

function withoutComments(language: TestLanguage, text: string): string {
  const block = language.comment.test("/*") ? withoutBlocks(text) : text;
  return block
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "" && !language.comment.test(line))
    .join("\n");
}

/** Without the block comments that begin a line; one that never ends is none. */
function withoutBlocks(text: string): string {
  const parts: string[] = [];
  let from = 0;
  for (const begin of text.matchAll(/^[ \t]*\/\*/gm)) {
    if (begin.index < from) continue;
    const end = text.indexOf("*/", begin.index + begin[0].length);
    if (end < 0) break;
    parts.push(text.slice(from, begin.index));
    from = end + 2;
  }
  return parts.join("") + text.slice(from);
}

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

function reducedTests(change: FileChange, arrived: ReadonlySet<string>): Finding[] {
  const former = change.formerPath;
  const language = former === null ? null : holdsTests(former, change.before);
  if (language === null) return [];
  const before = contentsOf(language, change.before!);
  const gone = change.deleted || holdsTests(change.path, change.after) === null;
  if (gone && change.after === null && !change.deleted) return []; // it can no longer be read: nothing can be said
  const keeps = !gone || (language === testLanguage(change.path) && /\.rs$/.test(change.path));
  const after = keeps ? contentsOf(language, change.after!) : { cases: 0, names: [], assertions: 0, tables: 0 };
  const stayed = new Set(after.names);
  const moved = before.names.filter((name) => !stayed.has(name) && arrived.has(name)).length;
  const lost = before.cases - after.cases - moved;
  // A file whose cases we cannot tell is known by its assertions.
  const tested = before.cases > 0 ? lost > 0 : before.assertions > 0;
  if (gone && !keeps) return tested ? [deletedFile(change, lost)] : [];
  // A table of cases in place of single ones cannot be counted, so it is pointed out and does not block.
  const severity = after.tables > before.tables ? "medium" : "high";
  const place = { file: change.path };
  if (lost > 0) {
    const message = `${change.path} has ${after.cases} test cases, ${before.cases} before`;
    return [staticFinding("weakened-test", severity, message, place)];
  }
  if (moved > 0 || after.assertions >= before.assertions) return [];
  const message = `${change.path} has ${after.assertions} assertions, ${before.assertions} before`;
  return [staticFinding("weakened-test", severity, message, place)];
}

function deletedFile(change: FileChange, lost: number): Finding {
  const how = change.deleted ? "was deleted" : `became ${change.path}, which runs no tests`;
  const message = `the test file ${change.formerPath} ${how} (${lost} test cases)`;
  return staticFinding("deleted-test", "high", message, { file: change.formerPath! });
}

function switchedOff(change: FileChange): Finding[] {
  const language = holdsTests(change.path, change.after);
  if (language === null) return [];
  const lines = change.after!.split(/\r?\n/);
  return change.added.flatMap((added) => {
    if (language.comment.test(added.text)) return [];
    const skip = language.skips.find((one) => matchesInCode(one.pattern, added.text));
    if (skip === undefined) return [];
    const message = `${change.path}: a test ${skip.what}: ${added.text.trim().slice(0, 120)}`;
    const severity = skip.statement && isConditional(lines, added) ? "medium" : "high";
    return [staticFinding(ruleOf(skip), severity, message, { file: change.path, line: added.line })];
  });
}

function ruleOf(skip: Skip): string {
  return skip.what.startsWith("shuts") ? "focused-test" : "skipped-test";
}

/** Behind a condition (a missing program, a slow machine) a skip is ordinary. */
function isConditional(lines: readonly string[], added: AddedLine): boolean {
  const condition = /\bif\b|\bunless\b|\?|&&|\|\||\bexcept\b/;
  const above = lines.slice(0, added.line - 1).findLast((line) => line.trim() !== "") ?? "";
  return condition.test(added.text) || condition.test(above);
}

/** Whether the pattern matches outside a quoted string: tests of tools quote such code. */
function matchesInCode(pattern: RegExp, text: string): boolean {
  const match = pattern.exec(text);
  if (match === null) return false;
  let quote = "";
  for (let index = 0; index < match.index; index += 1) {
    const character = text[index]!;
    if (character === "\\") index += 1;
    else if (quote !== "") quote = character === quote ? "" : quote;
    else if (character === '"' || character === "'" || character === "`") quote = character;
  }
  return quote === "";
}

function trivialAssertions(change: FileChange): Finding[] {
  const language = holdsTests(change.path, change.after);
  if (language === null) return [];
  const former = change.before === null ? 0 : contentsOf(language, change.before).assertions;
  const replaced = contentsOf(language, change.after!).assertions < former;
  return change.added.flatMap(({ line, text }) => {
    const pattern = new RegExp(language.trivial.source, language.trivial.flags.replace("g", ""));
    if (language.comment.test(text) || !matchesInCode(pattern, text)) return [];
    const message = `${change.path}: an assertion that always holds: ${text.trim().slice(0, 120)}`;
    return [staticFinding("trivial-assertion", replaced ? "high" : "medium", message, { file: change.path, line })];
  });
}

const scriptsSchema = z.object({ scripts: z.object({ test: z.string() }) });

/** A test script that was real and now succeeds whatever happens. */
function emptiedScript(change: FileChange): Finding[] {
  if (!/(?:^|\/)package\.json$/.test(change.path) || change.before === null) return [];
  const before = testScript(change.before);
  const after = change.after === null ? null : testScript(change.after);
  if (before === null || before === after || alwaysSucceeds(before)) return [];
  if (after !== null && !alwaysSucceeds(after)) return [];
  if (change.deleted) return [];
  const message = `the test script of ${change.path} ${after === null ? "was removed" : `now always succeeds: ${after.slice(0, 120)}`}`;
  return [staticFinding("weakened-test", "high", message, { file: change.path })];
}

function testScript(text: string): string | null {
  try {
    return scriptsSchema.safeParse(JSON.parse(text)).data?.scripts.test ?? null;
  } catch {
    return null; // not JSON: the syntax check says so
  }
}

function alwaysSucceeds(script: string): boolean {
  if (/(?:\|\||;)\s*(?:true|:|exit 0|echo\b[^&|;]*)\s*$/.test(script)) return true;
  return /^\s*(?:(?:true|:|exit 0|echo\b[^&|;]*)\s*(?:&&|;|$)\s*)+$/.test(script);
}
