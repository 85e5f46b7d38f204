// Builds the dashboard. As a program it prints the folder of the finished files, which a checkout
// caches by content; with --find it prints nothing if that has not been built yet.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const cache = join(root, "node_modules", ".cache", "wavesmith-dashboard");
/** A server that runs as long as this has its files in memory. */
const keptMs = 24 * 3_600_000;

/** Builds the dashboard into a folder. */
export async function bundleDashboard(outDir) {
  // A caller's NODE_ENV, such as a test runner's, would bundle the development build of React.
  process.env.NODE_ENV = "production";
  const { build } = await import("vite");
  await build({ configFile: join(root, "dashboard/vite.config.ts"), build: { outDir }, logLevel: "error" });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(cache, contentHash());
  if (!existsSync(folder) && !process.argv.includes("--find")) await make(folder);
  if (existsSync(folder)) console.log(folder);
}

async function make(folder) {
  mkdirSync(cache, { recursive: true });
  removeOld();
  const draft = `${folder}.${process.pid}`;
  await bundleDashboard(draft);
  try {
    renameSync(draft, folder);
  } catch (error) {
    // Another command built the same one first.
    rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

function contentHash() {
  const hash = createHash("sha256");
  for (const folder of ["dashboard", "src/client"]) {
    const names = existsSync(join(root, folder))
      ? readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      : [];
    for (const name of names.filter((name) => /\.\w+$/.test(name)).sort())
      hash.update(`\0${folder}/${name}\0`).update(readFileSync(join(root, folder, name)));
  }
  return hash
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex")
    .slice(0, 20);
}

function removeOld() {
  for (const name of readdirSync(cache)) {
    const path = join(cache, name);
    if (Date.now() - statSync(path).mtimeMs > keptMs) rmSync(path, { recursive: true, force: true });
  }
}
