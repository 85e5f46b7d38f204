import { createHash, randomBytes } from "node:crypto";
import { access, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, WavesmithError } from "../domain/errors.ts";

/**
 * The path of the guest as one file: the built package's own, else bundled from its sources into `cacheDir`, once for
 * each content. Two processes may ask at once.
 */
export async function guestProgram(cacheDir: string): Promise<string> {
  // A built package has it as dist/guest.mjs, with this module in dist/ or a folder or two below.
  for (const relative of ["./guest.mjs", "../guest.mjs", "../../guest.mjs"]) {
    const built = fileURLToPath(new URL(relative, import.meta.url));
    if (await isThere(built)) return built;
  }
  const code = await bundle(fileURLToPath(new URL("../guest/main.ts", import.meta.url)));
  const hash = createHash("sha256").update(code).digest("hex").slice(0, 16);
  const path = join(cacheDir, `guest-${hash}.mjs`);
  if (await isThere(path)) return path;
  await mkdir(cacheDir, { recursive: true });
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  await writeFile(temporary, code, { mode: 0o644 });
  await rename(temporary, path);
  return path;
}

/** Bundles the guest: Node's own modules are all it needs. */
export async function bundle(entry: string): Promise<Uint8Array> {
  try {
    const { build } = await import("esbuild");
    // Libraries of the older kind call `require`, which modules do not have.
    const banner = {
      js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
    };
    const options = { bundle: true, format: "esm", platform: "node", target: "node20", write: false, banner } as const;
    const result = await build({ ...options, entryPoints: [entry], logLevel: "silent" });
    const [file] = result.outputFiles;
    if (file === undefined) throw new Error("esbuild gave no output");
    return file.contents;
  } catch (error) {
    throw new WavesmithError("environment", `the guest could not be bundled from ${entry}: ${messageOf(error)}`, {
      remedy: "npm ci",
      cause: error,
    });
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false, // Not there yet: it is made.
  );
}
