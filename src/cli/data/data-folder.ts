import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

const name = ".wavesmith";

/**
 * Finds the data directory for commands typed in a folder, as git finds `.git`: the nearest
 * `.wavesmith` of this user at or above it, but not above the top of a git repository. Without one
 * it is to be at the top of the repository, or outside of a repository in the folder itself.
 */
export function findDataFolder(folder: string): string {
  for (let place = folder; ; place = dirname(place)) {
    const found = join(place, name);
    if (isOurs(found) || existsSync(join(place, ".git"))) return found;
    if (dirname(place) === place) return join(folder, name);
  }
}

/** A folder of another user, as anybody can put one into /tmp, is not ours to work in. */
function isOurs(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.();
}
