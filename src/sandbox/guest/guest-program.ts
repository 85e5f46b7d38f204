import { createHash, randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { access, constants, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildOptions } from "esbuild";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import programs from "./programs.json" with { type: "json" };

const root = new URL("../../../", import.meta.url);

/** The programs that run inside sandboxes, each bundled into one file, with their sources. */
export const sandboxPrograms: Readonly<Record<string, string>> = programs.sources;

/**
 * Returns the path of the guest as one file, with the agents' programs beside it: the built
 * package's own, otherwise bundled from sources, once per content, into the checkout's cache or
 * `cacheDir`. Safe from two processes at once.
 */
export async function guestProgram(cacheDir: string): Promise<string> {
  // The bundled command has it beside itself; the built package has it as dist/guest.mjs.
  for (const relative of ["./guest.mjs", "../../../guest.mjs"]) {
    const built = fileURLToPath(new URL(relative, import.meta.url));
    if (await isThere(built)) return built;
  }
  const name = `programs-${sourcesHash()}`;
  const folder = (await inCheckout(name)) ?? join(cacheDir, name);
  if (!(await isThere(folder))) await make(folder);
  return join(folder, "guest.mjs");
}

/**
 * Returns the checkout's cache, which serves every data directory; null when it cannot be written.
 */
async function inCheckout(name: string): Promise<string | null> {
  const folder = fileURLToPath(new URL("../../../node_modules/.cache/wavesmith-programs", import.meta.url));
  if (await isThere(join(folder, name))) return join(folder, name);
  return mkdir(folder, { recursive: true })
    .then(() => access(folder, constants.W_OK))
    .then(
      () => join(folder, name),
      () => null, // Somebody else's or read-only; use the data directory.
    );
}

/** Hashes the times of the sources, because reading and bundling them takes ten times longer. */
function sourcesHash(): string {
  const hash = createHash("sha256");
  const collectTimes = (path: string): void => {
    const { mtimeMs, size } = statSync(path);
    hash.update(`${path} ${mtimeMs} ${size}\n`);
  };
  for (const entry of Object.values(sandboxPrograms)) {
    const folder = fileURLToPath(new URL(".", new URL(entry, root)));
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort())
      collectTimes(join(folder, name));
  }
  collectTimes(fileURLToPath(new URL("../../../package-lock.json", import.meta.url)));
  return hash.digest("hex").slice(0, 16);
}

async function make(folder: string): Promise<void> {
  const draft = `${folder}.${randomBytes(6).toString("hex")}.tmp`;
  await mkdir(draft, { recursive: true });
  for (const [name, entry] of Object.entries(sandboxPrograms)) {
    const code = await bundle(fileURLToPath(new URL(entry, root)));
    await writeFile(join(draft, `${name}.mjs`), code, { mode: 0o644 });
  }
  await rename(draft, folder).catch(async (error: unknown) => {
    // Another process was quicker.
    await rm(draft, { recursive: true, force: true });
    if (!(await isThere(folder))) throw error;
  });
}

/** Bundles a program with everything it needs except Node's own modules. */
export async function bundle(entry: string): Promise<Uint8Array> {
  try {
    const { build } = await import("esbuild");
    const options = programs.options as BuildOptions; // A test compares the bytes with the package's.
    // The bytes hold paths from this folder; by default it is the caller's.
    const absWorkingDir = fileURLToPath(root);
    const result = await build({ ...options, absWorkingDir, entryPoints: [entry], write: false });
    const [file] = result.outputFiles ?? [];
    if (file === undefined) throw new Error("esbuild gave no output");
    return file.contents;
  } catch (error) {
    throw new WavesmithError("environment", `the program could not be bundled from ${entry}: ${messageOf(error)}`, {
      remedy: "npm ci",
      cause: error,
    });
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false, // Not made yet.
  );
}
