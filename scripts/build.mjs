// Makes dist/, what the npm package runs: the command as a bundle, the programs of sandboxes as one
// file each, the files they read, and the licences of the packages inside the bundle.
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundleCommand, commonJsBanner } from "./bundle-command.mjs";
import { bundleDashboard } from "./bundle-dashboard.mjs";
import { bundlePrograms, programOptions } from "./bundle-programs.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
const command = await bundleCommand({ outdir: dist, sourcemap: false, placeOf: placeInDist });
await bundlePrograms(dist);
await bundleEgress();
await bundleDashboard(join(dist, "dashboard"));
copyFiles();
writeLicences(command);

/** Maps a source file to its place in dist/, which is laid out like the checkout. */
function placeInDist(path) {
  const place = relative(root, path).split(sep).join("/").replace(/\.ts$/, ".js");
  return `new URL(${JSON.stringify(`./${place}`)}, import.meta.url).href`;
}

/** Bundles the egress proxy's process to where src/sandbox/egress/program.ts looks for it. */
async function bundleEgress() {
  await build({
    entryPoints: [join(root, "src/sandbox/egress/serve.ts")],
    outfile: join(dist, "src/sandbox/egress/serve.js"),
    ...programOptions,
    banner: { js: commonJsBanner },
  });
}

function copyFiles() {
  for (const folder of ["drizzle", "sandbox-image", "src/agents/prompts", "src/sandbox/tools/pins"])
    cpSync(join(root, folder), join(dist, folder), { recursive: true });
}

/** Writes the licence text of every package that the command's bundle holds. */
function writeLicences({ inputs }) {
  const folders = new Set(
    Object.keys(inputs).flatMap((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []),
  );
  const texts = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? "" : `\n\n${readFileSync(join(root, folder, file), "utf8").trim()}`;
    return `${name} ${version} (${license})${text}`;
  });
  writeFileSync(join(dist, "THIRD-PARTY-LICENSES.txt"), `${texts.join("\n\n---\n\n")}\n`);
}
