import { randomBytes } from "node:crypto";
import { open, readFile, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { WavesmithError } from "../domain/errors.ts";
import type { GitHubCredential } from "./settings.ts";

const credentialSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("token"), token: z.string().min(1) }),
  z.object({ kind: z.literal("app"), appId: z.string().min(1), privateKey: z.string().min(1) }),
]);

/** Where `github setup` stores a credential. */
const credentialPath = (dataDir: string): string => join(dataDir, "github.json");

/** Reads the stored credential; null if there is none. Fails if other users can read it. */
export async function readCredential(dataDir: string): Promise<GitHubCredential | null> {
  const path = credentialPath(dataDir);
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (stats === null) return null;
  const remedy = `remove ${path}, then: wavesmith github setup`;
  if ((stats.mode & 0o077) !== 0) {
    throw new WavesmithError("environment", `other users can read the credential in ${path}`, { remedy });
  }
  const parsed = credentialSchema.safeParse(jsonOf(await readFile(path, "utf8")));
  if (parsed.success) return parsed.data;
  throw new WavesmithError("environment", `there is no credential in ${path}`, { remedy });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // Reported as a file without a credential.
  }
}

/** Stores a credential, replacing any earlier one; only its owner can read the file. */
export async function writeCredential(dataDir: string, credential: GitHubCredential): Promise<string> {
  const path = credentialPath(dataDir);
  const unfinished = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const file = await open(unfinished, "wx", 0o600);
  try {
    await file.writeFile(`${JSON.stringify(credential)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
  return path;
}
