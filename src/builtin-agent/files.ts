import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";

// Others may edit the same files at the same time. An edit is made only to the version that was
// read: a file that was changed meanwhile is read again, never overwritten.

const longestFileBytes = 4 * 1024 * 1024;
const longestReadLines = 2_000;

/** What cannot be done, in words for the model. */
export class Refused extends Error {}

export interface Files {
  read(path: string, range: { from?: number | undefined; lines?: number | undefined }): string;
  /** The whole file as it will be; checked before it is asked for. */
  plan(path: string, change: (before: string | null) => string): Change;
  /** Writes what was planned, unless the file was changed since. */
  apply(change: Change): void;
}

export interface Change {
  readonly path: string;
  readonly before: string | null;
  readonly after: string;
}

/** The files of one tree, as one session knows them. */
export function createFiles(tree: string): Files {
  const versions = new Map<string, string>();
  const text = (path: string): string | null => {
    try {
      if (statSync(path).size > longestFileBytes) throw new Refused(`${path} is above 4 MiB`);
      return readFileSync(path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw error;
    }
  };
  return {
    read(path, { from = 1, lines = longestReadLines }) {
      const place = within(tree, path);
      const found = text(place);
      if (found === null) throw new Refused(`there is no file ${path}`);
      versions.set(place, versionOf(found));
      const all = found.split("\n");
      const shown = all.slice(from - 1, from - 1 + lines);
      const rest = all.length - (from - 1) - shown.length;
      return rest > 0 ? `${shown.join("\n")}\n[${rest} more lines]` : shown.join("\n");
    },
    plan(path, change) {
      const place = within(tree, path);
      const before = text(place);
      const known = versions.get(place);
      if (before !== null && known === undefined) throw new Refused(`read ${path} before you change it`);
      if (before !== null && known !== versionOf(before)) throw changed(path);
      return { path: place, before, after: change(before) };
    },
    apply({ path, before, after }) {
      if (text(path) !== before) throw changed(relative(tree, path));
      mkdirSync(dirname(path), { recursive: true });
      const mode = before === null ? 0o644 : statSync(path).mode & 0o777;
      // In one go: whoever reads meanwhile sees the file before or after, never half of it.
      const temporary = join(dirname(path), `.wavesmith-${process.pid}.tmp`);
      writeFileSync(temporary, after, { mode });
      renameSync(temporary, path);
      versions.set(path, versionOf(after));
    },
  };
}

const changed = (path: string): Refused =>
  new Refused(`${path} was changed by somebody else since you read it: read it again, then make your change`);

const versionOf = (text: string): string => createHash("sha256").update(text).digest("hex");

/**
 * Where a path leads, links followed; throws when that is out of the tree or in git's own folder.
 */
export function within(tree: string, path: string): string {
  const wanted = isAbsolute(path) ? path : resolve(tree, path);
  let existing = wanted;
  let rest = "";
  for (;;) {
    try {
      existing = realpathSync(existing);
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      rest = join(existing.slice(dirname(existing).length), rest);
      existing = dirname(existing);
    }
  }
  const place = join(existing, rest);
  const way = relative(realpathSync(tree), place);
  if (way.startsWith("..") || isAbsolute(way)) throw new Refused(`${path} is outside of your tree`);
  if (way.split("/")[0] === ".git") throw new Refused("git's own files are not yours");
  return place;
}
