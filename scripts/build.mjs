// Makes dist/, what the npm package runs: the compiled sources, what runs inside sandboxes as one file each, and the files they read.
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundlePrograms } from "./bundle-programs.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
compile();
await bundlePrograms(dist);
copyFiles();

function compile() {
  // Not through .bin: a package manager may have made none.
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const tsc = join(typescript, "bin", "tsc");
  const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** The migrations, the image's recipe, prompts and pins lie where the sources have them, seen from the compiled ones. */
function copyFiles() {
  for (const folder of ["drizzle", "sandbox-image"])
    cpSync(join(root, folder), join(dist, folder), { recursive: true });
  const prompts = join("src", "agents", "prompts");
  for (const name of readdirSync(join(root, prompts))) cpSync(join(root, prompts, name), join(dist, prompts, name));
  const pins = join("src", "sandbox", "tools", "pins");
  cpSync(join(root, pins), join(dist, pins), { recursive: true });
}
