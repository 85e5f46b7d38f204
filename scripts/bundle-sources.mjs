// Bundles the sources for a checkout's command and for programs of the tests. Caches each bundle by
// content. Loading them one by one through tsx takes longer than everything else a command does
// before its build begins.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const cache = join(root, "node_modules", ".cache", "wavesmith-sources");
/** A command that runs as long as this may still load parts of its bundle. */
const keptMs = 7 * 24 * 3_600_000;

/** Returns the URL of the bundled `src/cli/main.ts`; fails if the cache cannot be written. */
export async function bundleSources() {
  const folder = await bundleTogether(["src/cli/main.ts"], ["src", "functions", "scripts"]);
  return pathToFileURL(join(folder, "main.js")).href;
}

/**
 * Returns the folder with the bundles of some sources, which share their chunks. `folders` lists
 * everything that they may import.
 */
export async function bundleTogether(entries, folders) {
  const folder = join(cache, contentHash(entries, folders));
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) await make(entries, folder);
  return folder;
}

function contentHash(entries, folders) {
  const hash = createHash("sha256").update(process.version).update(entries.join());
  for (const folder of folders) {
    const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
    for (const name of names.filter((name) => /\.(ts|mjs)$/.test(name)).sort())
      hash.update(`\0${folder}/${name}\0`).update(readFileSync(join(root, folder, name)));
  }
  return hash
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex")
    .slice(0, 20);
}

async function make(entries, folder) {
  const [{ bundleCommand, looksBesideTheBundle }, { bundlePrograms }] = await Promise.all([
    import("./bundle-command.mjs"),
    import("./bundle-programs.mjs"),
  ]);
  mkdirSync(cache, { recursive: true });
  removeOld();
  const draft = `${folder}.${process.pid}`;
  const placeOf = (path) => (looksBesideTheBundle(path) ? "import.meta.url" : JSON.stringify(pathToFileURL(path).href));
  await bundleCommand({ entries, outdir: draft, sourcemap: true, placeOf });
  // Beside it, where the bundled src/sandbox/guest/guest-program.ts looks first.
  await bundlePrograms(draft);
  try {
    renameSync(draft, folder);
  } catch (error) {
    // Another process made the same bundle first.
    rmSync(draft, { recursive: true, force: true });
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) throw error;
  }
}

function removeOld() {
  for (const name of readdirSync(cache)) {
    const path = join(cache, name);
    if (Date.now() - statSync(path).mtimeMs > keptMs) rmSync(path, { recursive: true, force: true });
  }
}
