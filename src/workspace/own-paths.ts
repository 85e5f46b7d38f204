import { createPathMatcher } from "../domain/write-globs.ts";

// O1. A path is somebody's own when one of its globs matches it; a folder when every new file in it
// would be.

/** Which paths of a tree that several write are one's own. */
export interface OwnPaths {
  has(path: string): boolean;
  /** Whether whatever is made in this folder is one's own. */
  hasFolder(path: string): boolean;
}

/** A name no glob is written for: what it is matched by matches any. */
const anyFile = "~wavesmith~";

/** Null: all paths are. */
export function ownPaths(globs: readonly string[] | null): OwnPaths {
  if (globs === null) return { has: () => true, hasFolder: () => true };
  const matches = createPathMatcher(globs);
  return {
    has: matches,
    hasFolder: (path) => matches(`${path}/${anyFile}`) && matches(`${path}/${anyFile}/${anyFile}`),
  };
}
