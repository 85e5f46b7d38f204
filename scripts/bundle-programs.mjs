// Bundles the programs that run inside sandboxes, one file each.
// src/sandbox/guest/guest-program.ts does the same for a checkout, with the same options, because
// the image's label is the hash of these bytes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const { sources, options } = JSON.parse(readFileSync(join(root, "src/sandbox/guest/programs.json"), "utf8"));

/** The options with which we bundle every separate program. */
export const programOptions = options;

/**
 * Writes guest.mjs and the agents' programs into the folder, where
 * src/sandbox/guest/guest-program.ts looks for them.
 */
export async function bundlePrograms(folder) {
  const entryPoints = Object.fromEntries(Object.entries(sources).map(([name, path]) => [name, join(root, path)]));
  await build({ ...options, absWorkingDir: root, entryPoints, outdir: folder, outExtension: { ".js": ".mjs" } });
}
