import picomatch from "picomatch";

// What tasks declare to write: picomatch globs. The question of the wave planner is whether two globs can match the
// same path. A glob is read as a list of segments, each plain text or a pattern of single characters, "any one" and
// "any number"; whatever is harder than that is read as something that matches more, never less. So "cannot overlap"
// is always true, and "may overlap" is exact for the globs people write.

/** Any number of segments, none included. */
const anySegments = Symbol("**");
/** Any number of characters within a segment. */
const anyText = Symbol("*");
/** One character within a segment. */
const anyCharacter = Symbol("?");
type Token = string | typeof anyText | typeof anyCharacter;
type Segment = typeof anySegments | string | readonly Token[];

/** A glob read once, to be compared often: the patterns its braces stand for. */
export type CompiledGlob = readonly (readonly Segment[])[];

/** More alternatives than this in the braces of one glob, and it counts as matching anything. */
const maxAlternatives = 64;
const matchesAll: CompiledGlob = [[anySegments]];

/** Reads a glob for `compiledMayOverlap`; never throws. */
export function compileGlob(glob: string): CompiledGlob {
  const text = normaliseGlob(glob);
  if (!/[\\!"|{}()]/.test(text)) return [readSegments(text)];
  if (text.startsWith("!") || splitsWhole(text)) return matchesAll;
  const alternatives = expandBraces(text);
  return alternatives === null ? matchesAll : alternatives.map(readSegments);
}

/** Whether some path could match both globs; false is certain, true may be cautious. */
export function globsMayOverlap(left: string, right: string): boolean {
  return compiledMayOverlap(compileGlob(left), compileGlob(right));
}

/** `globsMayOverlap` for globs read beforehand. */
export function compiledMayOverlap(left: CompiledGlob, right: CompiledGlob): boolean {
  for (const one of left) for (const other of right) if (segmentsMeet(one, other)) return true;
  return false;
}

/** Whether one of the globs matches this path; dotfiles count like any other file. */
export function matchesAny(globs: readonly string[], path: string): boolean {
  return createPathMatcher(globs)(path);
}

/** `matchesAny` for many paths: the globs are read once. */
export function createPathMatcher(globs: readonly string[]): (path: string) => boolean {
  if (globs.length === 0) return () => false;
  const matches = picomatch(globs.map(normaliseGlob), { dot: true });
  return (path) => matches(path.replace(/^\.\//, ""));
}

/** The glob that matches this path alone, whatever characters are in it. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|"^$,]/g, "\\$&");
}

/** A trailing slash means the folder's contents; a leading `./` means nothing. */
function normaliseGlob(glob: string): string {
  const text = glob.replace(/^(?:\.\/+)+/, "").replace(/\/{2,}/g, "/");
  return text.endsWith("/") && !text.endsWith("\\/") ? `${text}**` : text;
}

/** A quote changes what everything after it means, a `|` outside parentheses splits the whole pattern in two. */
function splitsWhole(text: string): boolean {
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === "\\") index += 1;
    else if (character === "(") depth += 1;
    else if (character === ")") depth -= 1;
    else if (character === '"' || (character === "|" && depth <= 0)) return true;
  }
  return false;
}

/** The texts that the first brace group and those after it stand for; null when there are too many or it is not plain. */
function expandBraces(text: string): string[] | null {
  const finished: string[] = [];
  const open = [text];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const group = firstBraces(next);
    if (group === "none") finished.push(next);
    else if (group === "hard") return null;
    else for (const choice of group.choices) open.push(group.before + choice + group.after);
    if (finished.length + open.length > maxAlternatives) return null;
  }
  return finished;
}

type Braces = "none" | "hard" | { before: string; choices: string[]; after: string };

function firstBraces(text: string): Braces {
  const commas: number[] = [];
  let start = -1;
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === "\\") index += 1;
    else if (character === "{") {
      if (depth === 0) start = index;
      depth += 1;
    } else if (character === "," && depth === 1) commas.push(index);
    else if (character === "}" && depth === 1) return splitBraces(text, start, commas, index);
    else if (character === "}" && depth > 0) depth -= 1;
  }
  return depth > 0 || text.replace(/\\./g, "").includes("}") ? "hard" : "none";
}

function splitBraces(text: string, start: number, commas: readonly number[], end: number): Braces {
  const after = text.slice(end + 1);
  // A quantifier after the group, ranges and groups without a choice have meanings of their own.
  if (commas.length === 0 || /^[+?*]/.test(after) || text.slice(start, end).includes("..")) return "hard";
  const edges = [start, ...commas, end];
  const choices = edges.slice(1).map((edge, index) => text.slice(edges[index]! + 1, edge));
  return { before: text.slice(0, start), choices, after };
}

/** Splits at slashes; from the first segment that is too hard on, anything may follow. */
function readSegments(text: string): Segment[] {
  const segments: Segment[] = [];
  for (const part of text.split("/")) {
    if (part === "" || part === ".") continue;
    const segment = part === "**" ? anySegments : readSegment(part);
    segments.push(segment ?? anySegments);
    if (segment === null) break;
  }
  return segments;
}

// A class of plain characters and ranges that cannot contain a slash. It matches one character of the class, and
// picomatch also takes its text literally, brackets included: hence "any text".
const plainClass = /^\[[!^]?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_.@$])+\](?![+?*])/;

function readSegment(part: string): Segment | null {
  if (!/[\\*?[()]/.test(part)) return part;
  if (/\*\*|[()]/.test(part.replace(/\\./g, ""))) return null;
  const tokens: Token[] = [];
  for (let index = 0; index < part.length; index += 1) {
    const character = part[index]!;
    if (character === "\\") {
      index += 1;
      // Before a letter or digit picomatch leaves the backslash to the regular expression: `\d` is any digit.
      if (index === part.length || /\w/.test(part[index]!)) return null;
      tokens.push(part[index]!);
    } else if (character === "[") {
      const found = plainClass.exec(part.slice(index));
      if (found === null) return null;
      tokens.push(anyText);
      index += found[0].length - 1;
    } else if (character === "*") tokens.push(anyText);
    else tokens.push(character === "?" ? anyCharacter : character);
  }
  return tokens.every((token) => typeof token === "string") ? tokens.join("") : tokens;
}

function segmentsMeet(left: readonly Segment[], right: readonly Segment[]): boolean {
  let start = 0;
  // Most pairs part at a plain folder name: that is settled without a table.
  for (; start < left.length && start < right.length; start += 1) {
    const one = left[start];
    const other = right[start];
    if (typeof one !== "string" || typeof other !== "string") break;
    if (one !== other) return false;
  }
  return sequencesMeet(left.slice(start), right.slice(start), anySegments, segmentMeets);
}

function segmentMeets(left: Segment, right: Segment): boolean {
  if (typeof left === "string" && typeof right === "string") return left === right;
  const tokens = (segment: Segment): readonly Token[] => (typeof segment === "symbol" ? [anyText] : [...segment]);
  return sequencesMeet(tokens(left), tokens(right), anyText, tokenMeets);
}

const tokenMeets = (left: Token, right: Token): boolean =>
  left === right || left === anyCharacter || right === anyCharacter;

/** Whether two sequences, in which `star` stands for any number of elements, can describe the same one. */
function sequencesMeet<T>(left: readonly T[], right: readonly T[], star: T, meets: (a: T, b: T) => boolean): boolean {
  // reach[j]: what was read of `left` so far and the first j elements of `right` can describe the same sequence.
  let reach = [true];
  for (let j = 1; j <= right.length; j += 1) reach[j] = reach[j - 1]! && right[j - 1] === star;
  for (const one of left) {
    const next = [reach[0]! && one === star];
    for (let j = 1; j <= right.length; j += 1) {
      const other = right[j - 1]!;
      const starred = one === star || other === star;
      next[j] = starred ? reach[j]! || next[j - 1]! : reach[j - 1]! && meets(one, other);
    }
    reach = next;
  }
  return reach[right.length]!;
}
