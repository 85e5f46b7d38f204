import { z } from "zod";
import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt, present } from "../../domain/known.ts";
import { isTestFile } from "../test-files.ts";
import { type AddedLine, type FileChange, staticFinding } from "./changes.ts";
import { type Skip, type TestLanguage, testLanguage } from "./test-languages.ts";

// W7: a task may weaken tests only with `mayChangeTests`. We compare the numbers of cases and
// assertions, and look for added code that switches a test off or empties it.

interface TestCase {
  readonly name: string;
  /**
   * The assertions between its first line and the end of its block; counted on demand, because few
   * cases ever move.
   */
  assertions(): number;
}

interface Contents {
  readonly cases: number;
  /** The cases with readable names. */
  readonly named: readonly TestCase[];
  readonly assertions: number;
  readonly tables: number;
}

/** Cases that are new in their files, by name. */
type Arrivals = ReadonlyMap<string, TestCase[]>;

/** The most cases of one name that we compare. */
const maxSameName = 20;

/** People do not write longer lines. */
const longestLine = 2_000;

const rules = new Set(["weakened-test", "deleted-test", "skipped-test", "focused-test", "trivial-assertion"]);

/** Whether a finding reports a weakened test. */
export const isWeakenedTest = (finding: Finding): boolean => rules.has(finding.rule);

/**
 * Finds tests that were deleted, reduced or switched off. `changes`: those whose tasks may not
 * change tests; `before`: the paths of the base.
 */
export function findWeakenedTests(changes: readonly FileChange[], before: readonly string[]): Finding[] {
  // Cases that appear in another file were moved, not dropped.
  const arrived = new Map<string, TestCase[]>();
  for (const one of changes.flatMap(newCases)) {
    const alike = arrived.get(one.name) ?? [];
    arrived.set(one.name, alike);
    alike.push(one);
  }
  return changes.flatMap((change) => [
    ...reducedTests(change, arrived),
    ...hiddenTests(change, before),
    ...switchedOff(change),
    ...trivialAssertions(change),
    ...emptiedScript(change),
  ]);
}

function newCases(change: FileChange): TestCase[] {
  const language = languageOfTests(change.path, change.after);
  if (language === null) return [];
  const knownNames = new Set(
    change.before === null ? [] : contentsOf(language, change.before).named.map(({ name }) => name),
  );
  return contentsOf(language, present(change.after, "change.after")).named.filter(({ name }) => !knownNames.has(name));
}

/** Finds links that replace a folder of tests, because their target may change at any time. */
function hiddenTests(change: FileChange, before: readonly string[]): Finding[] {
  if (!change.isLink) return [];
  const hidden = before.filter((path) => path.startsWith(`${change.path}/`) && isTestFile(path));
  if (hidden.length === 0) return [];
  const message = `${change.path} became a link in the place of a folder with ${hidden.length} test files, such as ${hidden[0]}`;
  return [staticFinding("deleted-test", "high", message, { file: change.path })];
}

/** Returns the language of a file with tests, or null. Rust keeps tests beside the code. */
function languageOfTests(path: string, text: string | null): TestLanguage | null {
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
    named: cases.flatMap((match) => {
      const name = match.slice(1).find((text) => text !== undefined && text !== "");
      return name === undefined ? [] : [{ name, assertions: () => assertionsIn(language, blockAt(code, match.index)) }];
    }),
    assertions: assertionsIn(language, code),
    tables: count(code, language.tables),
  };
}

const assertionsIn = (language: TestLanguage, code: string): number =>
  count(code, language.assertions) - count(code, language.trivial);

const indentOf = (line: string): number => line.length - line.trimStart().length;
const longestBlock = 8_000;

/** Returns the lines from here to the end of the block: the next line indented no deeper. */
function blockAt(code: string, index: number): string {
  // The match may start at the end of the line before the case.
  const from = index + (/^\s*/.exec(code.slice(index, index + 1_000))?.[0].length ?? 0);
  const start = code.lastIndexOf("\n", from) + 1;
  const [first = "", ...rest] = code.slice(start, start + longestBlock).split("\n");
  const end = rest.findIndex((line) => line.trim() !== "" && indentOf(line) <= indentOf(first));
  return [first, ...rest.slice(0, end < 0 ? rest.length : end)].join("\n");
}

function withoutComments(language: TestLanguage, text: string): string {
  const block = language.comment.test("/*") ? withoutBlocks(text) : text;
  return block
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "" && !language.comment.test(line))
    .join("\n");
}

/** Removes block comments that start a line; an unclosed one is not a comment. */
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

function reducedTests(change: FileChange, arrived: Arrivals): Finding[] {
  const former = change.formerPath;
  const language = former === null ? null : languageOfTests(former, change.before);
  if (language === null) return [];
  const before = contentsOf(language, present(change.before, "change.before"));
  const isGone = change.deleted || languageOfTests(change.path, change.after) === null;
  if (isGone && change.after === null && !change.deleted) return [unreadable(change)];
  const keeps = !isGone || (language === testLanguage(change.path) && /\.rs$/.test(change.path));
  const after = keeps
    ? contentsOf(language, present(change.after, "change.after"))
    : { cases: 0, named: [], assertions: 0, tables: 0 };
  const stayed = new Set(after.named.map(({ name }) => name));
  const moved = before.named.filter((one) => !stayed.has(one.name) && takeArrival(one, arrived));
  const lost = before.cases - after.cases - moved.length;
  // If we cannot recognize a file's cases, count its assertions.
  const tested = before.cases > 0 ? lost > 0 : before.assertions > 0;
  if (isGone && !keeps) return tested ? [deletedFile(change, lost)] : [];
  // A table of cases that replaces single ones cannot be counted, so report it without blocking.
  const severity = after.tables > before.tables ? "medium" : "high";
  const place = { file: change.path };
  if (lost > 0) {
    const message = `${change.path} has ${after.cases} test cases, ${before.cases} before`;
    return [staticFinding("weakened-test", severity, message, place)];
  }
  const left = before.assertions - moved.reduce((sum, one) => sum + one.assertions(), 0);
  if (after.assertions >= left) return [];
  const message = `${change.path} has ${after.assertions} assertions, ${left} before`;
  return [staticFinding("weakened-test", severity, message, place)];
}

/** Whether another file now has the case with all its assertions; each moved case counts once. */
function takeArrival(isGone: TestCase, arrived: Arrivals): boolean {
  const others = arrived.get(isGone.name) ?? [];
  const assertionCount = others.length === 0 ? 0 : isGone.assertions();
  const place = others.slice(0, maxSameName).findIndex((other) => other.assertions() >= assertionCount);
  if (place >= 0) others.splice(place, 1);
  return place >= 0;
}

/** Reports a test file that we can no longer read, because its tests may be gone. */
function unreadable(change: FileChange): Finding {
  const fate = change.isLink ? "became a link" : "can no longer be read as text";
  return staticFinding("weakened-test", "high", `the test file ${change.path} ${fate}`, { file: change.path });
}

function deletedFile(change: FileChange, lost: number): Finding {
  const fate = change.deleted ? "was deleted" : `became ${change.path}, which runs no tests`;
  const message = `the test file ${change.formerPath} ${fate} (${lost} test cases)`;
  return staticFinding("deleted-test", "high", message, { file: present(change.formerPath, "change.formerPath") });
}

function switchedOff(change: FileChange): Finding[] {
  const language = languageOfTests(change.path, change.after);
  if (language === null) return [];
  const lines = present(change.after, "change.after").split(/\r?\n/);
  return change.added.flatMap((added) => {
    const text = added.text.slice(0, longestLine);
    const isComment = language.comment.test(text);
    const skip = language.skips.find((one) => (!isComment || one.directive) && matchesInCode(one.pattern, text));
    if (skip === undefined) return [];
    const message = `${change.path}: a test ${skip.what}: ${text.trim().slice(0, 120)}`;
    const isMild = (skip.statement && isConditional(lines, added)) || (skip.oldFiles && change.before === null);
    const severity = isMild ? "medium" : "high";
    return [staticFinding(ruleOf(skip), severity, message, { file: change.path, line: added.line })];
  });
}

function ruleOf(skip: Skip): string {
  return skip.what.startsWith("makes the runner skip") ? "focused-test" : "skipped-test";
}

/** Whether a skip is conditional, for example on a missing program, which is ordinary. */
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
    const character = itemAt(text, index);
    if (character === "\\") index += 1;
    else if (quote !== "") quote = character === quote ? "" : quote;
    else if (character === '"' || character === "'" || character === "`") quote = character;
  }
  return quote === "";
}

function trivialAssertions(change: FileChange): Finding[] {
  const language = languageOfTests(change.path, change.after);
  if (language === null) return [];
  const former = change.before === null ? 0 : contentsOf(language, change.before).assertions;
  const replaced = contentsOf(language, present(change.after, "change.after")).assertions < former;
  return change.added.flatMap(({ line, text }) => {
    const pattern = new RegExp(language.trivial.source, language.trivial.flags.replace("g", ""));
    if (language.comment.test(text) || !matchesInCode(pattern, text)) return [];
    const message = `${change.path}: an assertion that is always true: ${text.trim().slice(0, 120)}`;
    return [staticFinding("trivial-assertion", replaced ? "high" : "medium", message, { file: change.path, line })];
  });
}

const scriptsSchema = z.object({ scripts: z.object({ test: z.string() }) });

/** Finds a real test script that now always succeeds. */
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
    return null; // not JSON: the syntax check reports that
  }
}

function alwaysSucceeds(script: string): boolean {
  if (/(?:\|\||;)\s*(?:true|:|exit 0|echo\b[^&|;]*)\s*$/.test(script)) return true;
  return /^\s*(?:(?:true|:|exit 0|echo\b[^&|;]*)\s*(?:&&|;|$)\s*)+$/.test(script);
}
