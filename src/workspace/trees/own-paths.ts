import { createPathMatcher } from "../../domain/paths/write-globs.ts";

// OP1. A caller owns a path if one of its globs matches it, and a folder if it would own every new
// file in it.

/** The paths a caller owns in a tree that several callers write. */
export interface OwnPaths {
  has(path: string): boolean;
  /** Whether the caller owns every new file in this folder. */
  hasFolder(path: string): boolean;
}

/** A name that no glob is written for, so a glob that matches it matches any name. */
const anyFile = "~wavesmith~";

/** Returns the paths these globs own; null owns all. */
export function ownPaths(globs: readonly string[] | null): OwnPaths {
  if (globs === null) return { has: () => true, hasFolder: () => true };
  const matches = createPathMatcher(globs);
  return {
    has: matches,
    hasFolder: (path) => matches(`${path}/${anyFile}`) && matches(`${path}/${anyFile}/${anyFile}`),
  };
}
