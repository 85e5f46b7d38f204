import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { usualHosts } from "../../domain/sandbox/network.ts";
import { bundle } from "../guest/guest-program.ts";

export interface EgressProgram {
  readonly path: string;
  /** Tells whether a running proxy has the same program. */
  readonly hash: string;
}

/**
 * Returns the proxy's program: the compiled one beside us, otherwise one bundled from sources into
 * `cacheDir`.
 */
export async function egressProgram(cacheDir: string): Promise<EgressProgram> {
  const compiled = fileURLToPath(new URL("./serve.js", import.meta.url));
  if (existsSync(compiled)) return { path: compiled, hash: hashOfFolder(dirname(compiled)) };
  const code = await bundle(fileURLToPath(new URL("./serve.ts", import.meta.url)));
  const hash = createHash("sha256").update(code).digest("hex").slice(0, 16);
  const path = join(cacheDir, `egress-${hash}.mjs`);
  if (existsSync(path)) return { path, hash };
  mkdirSync(cacheDir, { recursive: true });
  const draft = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  writeFileSync(draft, code, { mode: 0o644 });
  renameSync(draft, path);
  return { path, hash };
}

/** Hashes the program, because another version has the same path. */
function hashOfFolder(folder: string): string {
  const hash = createHash("sha256").update(usualHosts.join());
  const names = readdirSync(folder).filter((name) => name.endsWith(".js"));
  for (const name of names.sort()) hash.update(readFileSync(join(folder, name)));
  return hash.digest("hex").slice(0, 16);
}
