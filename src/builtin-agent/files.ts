import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { readPage } from "./paging.ts";

// Others may edit the same files at the same time. An edit applies only to the version that was
// read: a file that changed meanwhile must be read again and is never overwritten.

const maxFileBytes = 4 * 1024 * 1024;

/** A refusal, in words for the model. */
export class Refused extends Error {}

export interface TreeFiles {
  read(path: string, range: { from?: number | undefined; lines?: number | undefined }): string;
  /** Computes the whole file after a change, before permission is asked. */
  plan(path: string, change: (before: string | null) => string): Change;
  /** Writes a planned change, unless the file has changed since. */
  apply(change: Change): void;
}

export interface Change {
  readonly path: string;
  readonly before: string | null;
  readonly after: string;
}

/**
 * Creates access to the files of one tree, which remembers the versions that the session has read.
 */
export function createTreeFiles(tree: string): TreeFiles {
  const versions = new Map<string, string>();
  const text = (path: string): string | null => {
    try {
      if (statSync(path).size > maxFileBytes)
        throw new Refused(`${path} is larger than 4 MiB: change it with a command`);
      return readFileSync(path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw error;
    }
  };
  return {
    read(path, range) {
      const target = resolveInTree(tree, path);
      if (!existsSync(target)) throw new Refused(`there is no file ${path}`);
      // Larger files can be read, but not edited.
      if (statSync(target).size <= maxFileBytes) versions.set(target, versionOf(readFileSync(target, "utf8")));
      return readPage(target, range);
    },
    plan(path, change) {
      const target = resolveInTree(tree, path);
      const before = text(target);
      const known = versions.get(target);
      if (before !== null && known === undefined) throw new Refused(`read ${path} before you change it`);
      if (before !== null && known !== versionOf(before)) throw changed(path);
      return { path: target, before, after: change(before) };
    },
    apply({ path, before, after }) {
      if (text(path) !== before) throw changed(relative(tree, path));
      mkdirSync(dirname(path), { recursive: true });
      const mode = before === null ? 0o644 : statSync(path).mode & 0o777;
      // Replaced atomically: a reader sees the file before or after, never half of it.
      const temporary = join(dirname(path), `.wavesmith-${process.pid}.tmp`);
      writeFileSync(temporary, after, { mode });
      renameSync(temporary, path);
      versions.set(path, versionOf(after));
    },
  };
}

const changed = (path: string): Refused =>
  new Refused(`${path} has changed since you read it: read it again, then make your change`);

const versionOf = (text: string): string => createHash("sha256").update(text).digest("hex");

/**
 * Resolves a path, following links. Throws when it leads out of the tree or into git's own folder.
 */
export function resolveInTree(tree: string, path: string): string {
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
  const target = join(existing, rest);
  const way = relative(realpathSync(tree), target);
  if (way.startsWith("..") || isAbsolute(way)) throw new Refused(`${path} is outside your tree`);
  if (way.split("/")[0] === ".git") throw new Refused("do not touch files in .git");
  return target;
}
