import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { jsonOf, writePrivately } from "../credential-file.ts";

// `github-app.json` in the data directory: the App that is being made. So another process, or the
// next one after a crash, can continue it, or say what may be left of it on GitHub.

const digest = z.string().length(64);

const unfinishedAppSchema = z.object({
  /** SHA-256 of the state in the address to which GitHub sends the browser back. */
  state: digest,
  expiresAt: z.coerce.date(),
  action: z.string(),
  manifest: z.string(),
  /** The exchange in progress: GitHub may have issued the App's key. */
  exchange: z.object({ code: digest, startedAt: z.coerce.date() }).nullable(),
});

/** An App that is not signed in yet. */
export type UnfinishedApp = z.infer<typeof unfinishedAppSchema>;

const pathIn = (dataDir: string): string => join(dataDir, "github-app.json");

/** Reads the App that is being made; null if there is none. */
export async function readUnfinishedApp(dataDir: string): Promise<UnfinishedApp | null> {
  const text = await readFile(pathIn(dataDir), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return unfinishedAppSchema.safeParse(jsonOf(text)).data ?? null;
}

export const writeUnfinishedApp = (dataDir: string, app: UnfinishedApp): Promise<void> =>
  writePrivately(pathIn(dataDir), `${JSON.stringify(app)}\n`);

export const removeUnfinishedApp = (dataDir: string): Promise<void> => rm(pathIn(dataDir), { force: true });
