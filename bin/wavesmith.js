#!/usr/bin/env node
// Plain JavaScript that any Node parses, so that an old Node prints this message instead of a
// syntax error.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const needed = [20, 19];
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < needed[0] || (major === needed[0] && minor < needed[1])) {
  process.stderr.write(
    `wavesmith needs Node ${needed.join(".")} or newer, and this is ${process.versions.node} (${process.execPath}).\n` +
      "Install a newer one from https://nodejs.org, or with your version manager: nvm install 22\n",
  );
  process.exit(4);
}

// A checkout runs its sources, because its dist/ may be older than the last `git pull`.
const sources = new URL("../src/cli/main.ts", import.meta.url);
const built = new URL("../dist/main.js", import.meta.url);
const { main } = existsSync(fileURLToPath(sources)) ? await fromSources() : await import(built.href);
await main(process);

/** Loads a checkout's sources: bundled, or through tsx if no bundle can be cached. */
async function fromSources() {
  try {
    const { bundleSources } = await import("../scripts/bundle-sources.mjs");
    const bundle = await bundleSources();
    if (process.argv.includes("--verbose")) process.setSourceMapsEnabled(true);
    return await import(bundle);
  } catch {
    return throughTsx(); // It reports errors in the sources, or missing packages.
  }
}

async function throughTsx() {
  const { register } = await import("tsx/esm/api").catch(() => {
    process.stderr.write("wavesmith: its packages are not installed. Run: npm ci\n");
    process.exit(4);
  });
  register();
  return import("../src/cli/main.ts");
}
