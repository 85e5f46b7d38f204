import { itemAt } from "../known.ts";
// Compiles a glob into a state machine of the same size. Matching tracks all states at once, so its
// time grows with the product of the glob's and the path's length, never with the number of ways to
// match. docs/adr says why we have our own globs.
// GS1. A path is read with a trailing slash, so that every segment ends with one.
// GS2. `**` ends just after a slash, so only there may the slash after `**` be skipped.

/** Ranges of character codes. */
export type Characters = readonly (readonly [from: number, to: number])[];

/** A transition on one of these characters. */
interface Move {
  readonly reads: Characters;
  readonly next: number;
}

export interface State {
  readonly moves: readonly Move[];
  /** States reached without reading a character. */
  readonly silently: readonly number[];
  readonly kind: "plain" | "slash" | "segments" | "end";
}

export interface Machine {
  readonly states: readonly State[];
  readonly start: number;
}

const slash: Characters = [[47, 47]];
const anyButSlash: Characters = [
  [0, 46],
  [48, 0xffff],
];
const end: State = { moves: [], silently: [], kind: "end" };

/** Compiles globs into one machine that matches if any of them does. Any text is a valid glob. */
export function compileMachine(globs: readonly string[]): Machine {
  const states: State[] = [end];
  const starts = globs.map((glob) => new Reader(normaliseGlob(glob), states).read());
  states.push({ moves: [], silently: starts, kind: "plain" });
  return { states, start: states.length - 1 };
}

/** Normalises a glob: a trailing slash means the folder's contents; a leading `./` is dropped. */
export function normaliseGlob(glob: string): string {
  const text = glob.replace(/\/(?:\.?\/)+/g, "/").replace(/^\.\//, "");
  return text.endsWith("/") && !text.endsWith("\\/") ? `${text}**` : text;
}

/** A brace group with alternatives; `commas` are the positions of its own commas. */
interface Braces {
  readonly open: number;
  readonly commas: readonly number[];
  readonly close: number;
}

/** Where to continue after an alternative, and the alternatives read so far. */
interface OpenGroup {
  readonly braces: Braces;
  readonly after: number;
  readonly starts: number[];
}

/** Reads a glob backwards, so that the state after each part exists before the part. */
class Reader {
  private readonly text: string;
  private readonly states: State[];
  private readonly escaped: readonly boolean[];
  private readonly classes: ReadonlyMap<number, number>;
  private readonly byOpen = new Map<number, Braces>();
  private readonly byClose = new Map<number, Braces>();
  private readonly byComma = new Map<number, Braces>();

  constructor(text: string, states: State[]) {
    this.text = text;
    this.states = states;
    this.escaped = escapedIn(text);
    this.classes = classesIn(text, this.escaped);
    for (const braces of bracesIn(text, this.escaped, this.classes)) {
      this.byOpen.set(braces.open, braces);
      this.byClose.set(braces.close, braces);
      for (const comma of braces.commas) this.byComma.set(comma, braces);
    }
  }

  /** Returns the start state. */
  read(): number {
    const groups: OpenGroup[] = [];
    let next = this.slash(0);
    for (let at = this.text.length - 1; at >= 0; at -= 1) {
      const closed = this.byClose.get(at);
      const group = groups.at(-1);
      if (closed !== undefined) groups.push({ braces: closed, after: next, starts: [] });
      else if (group !== undefined && this.byComma.get(at) === group.braces) {
        group.starts.push(next);
        next = group.after;
      } else if (group !== undefined && this.byOpen.get(at) === group.braces) {
        next = this.split([...group.starts, next]);
        groups.pop();
      } else [at, next] = this.readBackwards(at, next);
    }
    return next;
  }

  /** Reads the part that ends at `at`; returns its start and its state. */
  private readBackwards(at: number, next: number): [number, number] {
    const character = itemAt(this.text, at);
    if (this.escaped[at]) return [at - 1, this.literal(at, next)];
    const opened = this.classes.get(at);
    if (opened !== undefined) return [opened, this.readClass(opened, at, next)];
    if (character === "?") return [at, this.reading(anyButSlash, next)];
    if (character === "*") return this.readStars(at, next);
    return [at, this.literal(at, next)];
  }

  private literal(at: number, next: number): number {
    const code = this.text.charCodeAt(at);
    return this.text[at] === "/" ? this.slash(next) : this.reading([[code, code]], next);
  }

  private readStars(end: number, next: number): [number, number] {
    let start = end;
    while (start > 0 && this.text[start - 1] === "*" && !this.escaped[start - 1]) start -= 1;
    const isWhole = end - start === 1 && this.beginsSegment(start) && this.endsSegment(end + 1);
    return [start, isWhole ? this.segments(next) : this.anyText(next)];
  }

  private anyText(next: number): number {
    const loop = this.split([this.states.length + 1, next]);
    this.reading(anyButSlash, loop);
    return loop;
  }

  /** Matches whole segments, each with its slash. */
  private segments(next: number): number {
    const between = this.states.length;
    const within = between + 1;
    this.add({ moves: [{ reads: anyButSlash, next: within }], silently: [next], kind: "segments" });
    const rest = { reads: anyButSlash, next: within };
    this.add({ moves: [rest, { reads: slash, next: between }], silently: [], kind: "plain" });
    return between;
  }

  private beginsSegment(at: number): boolean {
    for (let before = at - 1; before >= 0; ) {
      if (this.text[before] === "/") return true;
      const braces = this.byOpen.get(before) ?? this.byComma.get(before);
      if (braces === undefined) return false;
      before = braces.open - 1;
    }
    return true;
  }

  private endsSegment(at: number): boolean {
    for (let after = at; after < this.text.length; ) {
      if (this.text[after] === "/") return true;
      const braces = this.byClose.get(after) ?? this.byComma.get(after);
      if (braces === undefined) return false;
      after = braces.close + 1;
    }
    return true;
  }

  /** A class of plain characters also matches its own text: some frameworks name files `[id]`. */
  private readClass(open: number, close: number, next: number): number {
    const text = this.text.slice(open + 1, close);
    const negated = /^[!^]/.test(text);
    const one = this.reading(charactersIn(negated ? text.slice(1) : text, negated), next);
    if (/[-*+?.^${}(|)[\]\\!]/.test(text)) return one;
    let itself = next;
    for (let at = close; at >= open; at -= 1) itself = this.literal(at, itself);
    return this.split([one, itself]);
  }

  private reading(reads: Characters, next: number): number {
    return this.add({ moves: [{ reads, next }], silently: [], kind: "plain" });
  }

  private slash(next: number): number {
    return this.add({ moves: [{ reads: slash, next }], silently: [next], kind: "slash" });
  }

  private split(silently: readonly number[]): number {
    return this.add({ moves: [], silently, kind: "plain" });
  }

  private add(state: State): number {
    return this.states.push(state) - 1;
  }
}

/** Marks the characters that a backslash escapes; a trailing backslash stands for itself. */
function escapedIn(text: string): boolean[] {
  const escaped: boolean[] = [];
  for (let at = 0; at < text.length; at += 1) {
    escaped[at] = at > 0 && text[at - 1] === "\\" && !escaped[at - 1];
  }
  return escaped;
}

/** Finds classes within a segment: maps the position of each `]` to that of its `[`. */
function classesIn(text: string, escaped: readonly boolean[]): Map<number, number> {
  const classes = new Map<number, number>();
  let open = -1;
  for (let at = 0; at < text.length; at += 1) {
    if (escaped[at]) continue;
    if (text[at] === "/") open = -1;
    else if (text[at] === "[" && open < 0) open = at;
    else if (text[at] === "]" && open >= 0 && at > open + (/[!^]/.test(itemAt(text, open + 1)) ? 2 : 1)) {
      classes.set(at, open);
      open = -1;
    }
  }
  return classes;
}

/** Returns the characters that a class matches, never a slash. */
function charactersIn(text: string, negated: boolean): Characters {
  const plain = text.replace(/\\(.)/g, "$1");
  const ranges: [number, number][] = [];
  for (let at = 0; at < plain.length; at += 1) {
    const isRange = plain[at + 1] === "-" && at + 2 < plain.length;
    ranges.push([plain.charCodeAt(at), plain.charCodeAt(isRange ? at + 2 : at)]);
    if (isRange) at += 2;
  }
  const chosen = negated ? without(anyButSlash, ranges) : ranges;
  return negated ? chosen : without(chosen, slash);
}

function without(from: Characters, ranges: Characters): Characters {
  return ranges.reduce<Characters>((left, [low, high]) => {
    if (low > high) return left;
    return left.flatMap(([first, last]) => {
      const parts: [number, number][] = [
        [first, Math.min(last, low - 1)],
        [Math.max(first, high + 1), last],
      ];
      return parts.filter(([one, other]) => one <= other);
    });
  }, from);
}

function bracesIn(text: string, escaped: readonly boolean[], classes: ReadonlyMap<number, number>): Braces[] {
  const groups: Braces[] = [];
  const open: { open: number; commas: number[] }[] = [];
  const ends = new Map([...classes].map(([close, start]) => [start, close]));
  for (let at = 0; at < text.length; at += 1) {
    at = ends.get(at) ?? at;
    if (escaped[at]) continue;
    if (text[at] === "{") open.push({ open: at, commas: [] });
    else if (text[at] === ",") open.at(-1)?.commas.push(at);
    else if (text[at] === "}") {
      const group = open.pop();
      if (group !== undefined && group.commas.length > 0) groups.push({ ...group, close: at });
    }
  }
  return groups;
}
