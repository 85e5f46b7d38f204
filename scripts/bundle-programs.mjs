// Bundles the programs that run inside sandboxes, one file each.
// src/sandbox/guest/guest-program.ts does the same for a checkout.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Writes guest.mjs and the agents' programs into the folder, where
 * src/sandbox/guest/guest-program.ts looks for them.
 */
export async function bundlePrograms(folder) {
  const names = ["guest", "agent-host", "builtin-agent"];
  await build({
    entryPoints: Object.fromEntries(names.map((name) => [name, join(root, "src", name, "main.ts")])),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    logLevel: "silent",
    // The same bytes as from src/sandbox/guest/guest-program.ts, because the image's label is their
    // hash.
    banner: {
      js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
    },
  });
}
