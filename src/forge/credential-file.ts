import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ForgeError } from "./port.ts";
import type { GitHubCredential } from "./settings.ts";

const credentialSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("token"), token: z.string().min(1) }),
  z.object({
    kind: z.literal("app"),
    appId: z.string().min(1),
    privateKey: z.string().min(1),
    webhookSecret: z.string().min(1).optional(),
  }),
]);

/** Where the credential of a data directory is stored. */
const credentialPath = (dataDir: string): string => join(dataDir, "github.json");

/**
 * Creates a reader of the stored credential, which returns null if there is none. It reads the file
 * again whenever that changes, so that running processes use what another one has stored. Fails
 * with `unauthorized` if other users can read the file.
 */
export function createCredentialReader(dataDir: string): () => GitHubCredential | null {
  const path = credentialPath(dataDir);
  let known: { readonly stamp: string; readonly credential: GitHubCredential } | null = null;
  return () => {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (stats === undefined) return null;
    const remedy = `remove ${path}, then: wavesmith github setup`;
    if ((stats.mode & 0o077n) !== 0n) {
      throw new ForgeError("unauthorized", `other users can read the credential in ${path}`, { remedy });
    }
    const stamp = `${stats.ino} ${stats.mtimeNs} ${stats.size}`;
    if (known?.stamp === stamp) return known.credential;
    const parsed = credentialSchema.safeParse(jsonOf(readFileSync(path, "utf8")));
    if (!parsed.success) throw new ForgeError("unauthorized", `there is no credential in ${path}`, { remedy });
    known = { stamp, credential: parsed.data };
    return parsed.data;
  };
}

/** Parses JSON; null if the text is something else. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // The caller says what is missing.
  }
}

/** Stores a credential in place of any earlier one. Returns the file, which its owner can read. */
export async function writeCredential(dataDir: string, credential: GitHubCredential): Promise<string> {
  const path = credentialPath(dataDir);
  await writePrivately(path, `${JSON.stringify(credential)}\n`);
  return path;
}

/** Replaces a file with one that only its owner can read. A crash leaves the old or the new one. */
export async function writePrivately(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const file = await open(unfinished, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
}
