import { itemAt } from "../known.ts";
import { type Characters, compileMachine, type Machine, normaliseGlob, type State } from "./glob-states.ts";

// Globs for the files that a task declares to write: `*`, `**`, `?`, classes, braces and escapes,
// like picomatch with `dot`. The same machine tells whether a glob matches a path and whether two
// globs can match the same path.

/** A glob read once, for many comparisons. */
export interface CompiledGlob {
  /** The common prefix of every path it matches. */
  readonly prefix: string;
  readonly machine: Machine;
}

/** Reads a glob for `compiledMayOverlap`; never throws. */
export function compileGlob(glob: string): CompiledGlob {
  const text = normaliseGlob(glob);
  // A `**` after a slash may match nothing, so the slash before it is not part of every path.
  const plain = text.replace(/[*?[\]{},\\][\s\S]*$/, "").replace(/\/$/, "");
  return { prefix: plain, machine: compileMachine([glob]) };
}

/** Whether a path could match both globs. False is certain; true may be a cautious guess. */
export function globsMayOverlap(left: string, right: string): boolean {
  return compiledMayOverlap(compileGlob(left), compileGlob(right));
}

/** `globsMayOverlap` for compiled globs. Takes time proportional to the product of their sizes. */
export function compiledMayOverlap(left: CompiledGlob, right: CompiledGlob): boolean {
  const shared = Math.min(left.prefix.length, right.prefix.length);
  if (left.prefix.slice(0, shared) !== right.prefix.slice(0, shared)) return false;
  return machinesMeet(left.machine, right.machine);
}

/** Whether one of the globs matches this path; dotfiles count like other files. */
export function matchesAny(globs: readonly string[], path: string): boolean {
  return createPathMatcher(globs)(path);
}

/** `matchesAny` for many paths: reads the globs once. */
export function createPathMatcher(globs: readonly string[]): (path: string) => boolean {
  if (globs.length === 0) return () => false;
  const machine = compileMachine(globs);
  let first = stepOf(machine, closure(machine, [machine.start * 2]));
  let cachedSteps = 1;
  return (path) => {
    let step = first;
    // Keep the states for the next path, and start over when there are too many.
    if (cachedSteps > maxCachedSteps) {
      first = stepOf(machine, first.places);
      step = first;
      cachedSteps = 1;
    }
    const text = `${path.replace(/^\.\//, "")}/`;
    for (let at = 0; at < text.length && step.places.length > 0; at += 1) {
      const code = text.charCodeAt(at);
      let next = step.nexts.get(code);
      if (next === undefined) {
        next = stepOf(machine, afterReading(machine, step.places, code));
        step.nexts.set(code, next);
        cachedSteps += 1;
      }
      step = next;
    }
    return step.isEnd;
  };
}

/** Whether a glob names this segment, rather than matching it with a wildcard such as `**`. */
export function isNamedBy(glob: string, path: string, segment: number): boolean {
  const matches = createPathMatcher([glob]);
  if (!matches(path)) return false;
  const other = path.split("/");
  other[segment] = itemAt(other, segment).replace(/^(\.?)[^.]+/, "$1~wavesmith~");
  return !matches(other.join("/"));
}

/** Returns a glob that matches exactly this path, whatever characters it holds. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?[\]{}()!+@|"^$,]/g, "\\$&");
}

const maxCachedSteps = 2_000;

/**
 * A machine's position after part of a path: twice the state's number, plus one just after a `**`
 * (GS2).
 */
interface Step {
  readonly places: readonly number[];
  readonly isEnd: boolean;
  readonly nexts: Map<number, Step>;
}

const stepOf = ({ states }: Machine, places: readonly number[]): Step => ({
  places,
  isEnd: places.some((place) => itemAt(states, place >> 1).kind === "end"),
  nexts: new Map(),
});

/** Returns all positions reached without reading a character. */
function closure({ states }: Machine, from: readonly number[]): number[] {
  const positions = [...new Set(from)];
  const seen = new Set(positions);
  for (let at = 0; at < positions.length; at += 1) {
    for (const next of silentlyNext(itemAt(states, itemAt(positions, at) >> 1), itemAt(positions, at))) {
      if (!seen.has(next)) positions.push(next);
      seen.add(next);
    }
  }
  return positions;
}

function silentlyNext({ kind, silently }: State, place: number): number[] {
  const behindSegments = place & 1;
  if (kind === "slash") return behindSegments === 1 ? silently.map((next) => next * 2) : [];
  return silently.map((next) => next * 2 + (kind === "segments" ? 1 : behindSegments));
}

function afterReading(machine: Machine, places: readonly number[], code: number): number[] {
  const moves = places.flatMap((place) => itemAt(machine.states, place >> 1).moves);
  const taken = moves.filter(({ reads }) => reads.some(([from, to]) => from <= code && code <= to));
  return closure(
    machine,
    taken.map(({ next }) => next * 2),
  );
}

/**
 * Above this many pairs, reached only by globs with hundreds of stars, we answer a cautious yes.
 */
const maxPairs = 100_000;

/** Whether both machines accept some path: walks the pairs of positions that one path can reach. */
function machinesMeet(left: Machine, right: Machine): boolean {
  const width = right.states.length * 2;
  const seen = new Set<number>();
  const open: number[] = [];
  const visit = (one: number, other: number): void => {
    const pair = one * width + other;
    if (!seen.has(pair)) open.push(pair);
    seen.add(pair);
  };
  visit(left.start * 2, right.start * 2);
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    if (seen.size > maxPairs) return true;
    const one = Math.floor(pair / width);
    const other = pair % width;
    const leftState = itemAt(left.states, one >> 1);
    const rightState = itemAt(right.states, other >> 1);
    if (leftState.kind === "end" && rightState.kind === "end") return true;
    for (const next of silentlyNext(leftState, one)) visit(next, other);
    for (const next of silentlyNext(rightState, other)) visit(one, next);
    for (const { reads, next } of leftState.moves) {
      for (const move of rightState.moves) if (shareCharacter(reads, move.reads)) visit(next * 2, move.next * 2);
    }
  }
  return false;
}

const shareCharacter = (left: Characters, right: Characters): boolean =>
  left.some(([from, to]) => right.some(([low, high]) => from <= high && low <= to));
