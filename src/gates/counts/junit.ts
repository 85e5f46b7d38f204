import { itemAt } from "../../domain/known.ts";
import { type Counts, makeCounts, sumCounts, withAssertions } from "./count.ts";

// A tolerant reader of JUnit XML. It expands only XML's five entities and numeric ones, fetches
// nothing, and returns what it read so far when the text is malformed.

interface Tag {
  readonly name: string;
  readonly kind: "open" | "close" | "empty";
  readonly attributes: string;
  /** The text between this tag and the next. */
  readonly text: string;
}

const longestAttributes = 16_000;

export interface JunitCase {
  readonly name: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly message: string;
}

/** Counts the tests of JUnit reports; null when none of them is one. */
export function countJunit(reports: readonly { readonly xml: string }[]): Counts | null {
  return sumCounts(reports.map((report) => countReport(report.xml)).filter((one) => one !== null));
}

function countReport(xml: string): Counts | null {
  const tags = readTags(xml);
  const suites = tags.filter((tag) => (tag.name === "testsuites" || tag.name === "testsuite") && tag.kind !== "close");
  if (suites.length === 0) return null;
  const totals = { ...fromAttributes(suites), ...withAssertions(assertionsIn(tags)) };
  const cases = casesOf(tags);
  if (cases.length === 0) return totals;
  const caseCount = (outcome: JunitCase["outcome"]) => cases.filter((one) => one.outcome === outcome).length;
  // A suite may fail outside its cases, for example in its set-up.
  const failed = Math.max(caseCount("failed"), totals.failed);
  const passed = Math.max(0, cases.length - failed - caseCount("skipped"));
  return { ...makeCounts(passed, failed, caseCount("skipped")), ...withAssertions(totals.assertions) };
}

/** Counts assertions, which PHPUnit, minitest and others report per case and per suite. */
function assertionsIn(tags: readonly Tag[]): number | undefined {
  const of = (name: string) =>
    tags.flatMap((tag) => {
      const number = tag.name === name && tag.kind !== "close" ? attribute(tag, "assertions") : null;
      return number === null || !/^\d{1,9}$/.test(number) ? [] : [Number(number)];
    });
  const [cases, suites] = [of("testcase"), of("testsuite")];
  if (cases.length > 0) return cases.reduce((sum, one) => sum + one, 0);
  return suites.length > 0 ? Math.max(...suites) : undefined;
}

/** Reads the numbers of the outermost element, or the sum of its suites. */
function fromAttributes(suites: readonly Tag[]): Counts {
  const root = itemAt(suites, 0);
  const countedSuites = attribute(root, "tests") !== null || root.name === "testsuite" ? [root] : suites.slice(1);
  const all = countedSuites.map((suite) => {
    const number = (name: string) => Number(attribute(suite, name) ?? 0) || 0;
    const failed = number("failures") + number("errors");
    const skipped = number("skipped") + number("disabled");
    return makeCounts(Math.max(0, number("tests") - failed - skipped), failed, skipped);
  });
  return sumCounts(all) ?? makeCounts(0, 0, 0);
}

/** The test cases of a report. */
export function junitCases(xml: string): JunitCase[] {
  return casesOf(readTags(xml));
}

function casesOf(tags: readonly Tag[]): JunitCase[] {
  const cases: JunitCase[] = [];
  tags.forEach((tag, index) => {
    if (tag.name !== "testcase" || tag.kind === "close") return;
    const inside = tag.kind === "empty" ? [] : childrenOf(tags, index);
    const failure = inside.find((child) => child.name === "failure" || child.name === "error");
    const skipped = inside.some((child) => child.name === "skipped");
    const line = Number(attribute(tag, "line") ?? Number.NaN);
    cases.push({
      name: attribute(tag, "name") ?? "",
      file: attribute(tag, "file"),
      line: Number.isInteger(line) && line > 0 ? line : null,
      outcome: failure !== undefined ? "failed" : skipped ? "skipped" : "passed",
      message: failure === undefined ? "" : (attribute(failure, "message") ?? failure.text).trim(),
    });
  });
  return cases;
}

function childrenOf(tags: readonly Tag[], start: number): Tag[] {
  const children: Tag[] = [];
  for (let index = start + 1; index < tags.length; index += 1) {
    const tag = itemAt(tags, index);
    if (tag.name === "testcase") break; // the end of the case, or the next case if the end is missing
    if (tag.kind !== "close") children.push(tag);
  }
  return children;
}

function attribute(tag: Tag, name: string): string | null {
  for (const match of tag.attributes.matchAll(/(?<![\w:.-])([\w:.-]+)\s*=\s*("[^"]*"|'[^']*')/g)) {
    if (match[1] === name) return decodeEntities(itemAt(match, 2).slice(1, -1));
  }
  return null;
}

function decodeEntities(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w{2,4}));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return named[name] ?? whole;
    const code = hex !== undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** Walks from `<` to `>` by hand, so that no pattern runs over a whole report. */
function readTags(xml: string): Tag[] {
  const tags: Tag[] = [];
  let at = xml.indexOf("<");
  while (at >= 0) {
    const skipTo = endOfSpecial(xml, at);
    const end = skipTo ?? endOfTag(xml, at);
    if (end < 0) break;
    const next = xml.indexOf("<", end);
    if (skipTo === null) {
      const tag = parseTag(xml.slice(at + 1, end - 1), textAfter(xml, end, next));
      if (tag !== null) tags.push(tag);
    }
    at = next;
  }
  return tags;
}

/**
 * Returns the end of a comment, CDATA, declaration or instruction that starts here; null for a tag;
 * -1 when it is unclosed.
 */
function endOfSpecial(xml: string, at: number): number | null {
  const closers: [string, string][] = [
    ["<!--", "-->"],
    ["<![CDATA[", "]]>"],
    ["<?", "?>"],
    ["<!", ">"],
  ];
  for (const [opener, closer] of closers) {
    if (!xml.startsWith(opener, at)) continue;
    const end = xml.indexOf(closer, at + opener.length);
    return end < 0 ? -1 : end + closer.length;
  }
  return null;
}

function endOfTag(xml: string, at: number): number {
  let quote = "";
  for (let index = at + 1; index < xml.length; index += 1) {
    const character = itemAt(xml, index);
    if (quote !== "") quote = character === quote ? "" : quote;
    else if (character === '"' || character === "'") quote = character;
    else if (character === ">") return index + 1;
  }
  return -1;
}

function parseTag(inner: string, text: string): Tag | null {
  const match = /^(\/?)([\w:.-]+)/.exec(inner);
  if (match === null) return null;
  const kind = match[1] === "/" ? "close" : inner.endsWith("/") ? "empty" : "open";
  // Some writers prefix every name with a namespace.
  return {
    name: itemAt(match, 2).replace(/^.*:/, ""),
    kind,
    attributes: inner.slice(match[0].length, longestAttributes),
    text,
  };
}

function textAfter(xml: string, start: number, next: number): string {
  if (next >= 0 && xml.startsWith("<![CDATA[", next)) {
    const end = xml.indexOf("]]>", next);
    return xml.slice(next + 9, end < 0 ? undefined : end);
  }
  return decodeEntities(xml.slice(start, next < 0 ? undefined : next));
}
