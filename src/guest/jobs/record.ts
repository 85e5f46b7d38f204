// The record of a job that outlives its guest: one small file, replaced atomically.
import { createHash } from "node:crypto";
import { open, readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../faults.ts";
import { makeFolder } from "../files/make-folders.ts";
import type { JobState } from "../protocol.ts";

const recordName = "job.json";

/** Returns the name of a job's folder, which is safe for any key. */
export function jobId(key: string): string {
  return createHash("sha256").update(key).digest("hex").slice(0, 40);
}

/**
 * Replaces the record. A `durable` record survives a power cut: the file, its name and its folder
 * are on the disk when this resolves. Otherwise it survives the guest.
 */
export async function saveRecord(folder: string, state: JobState, durable: boolean): Promise<void> {
  await makeFolder(folder, 0o700);
  const temporary = join(folder, `${recordName}.tmp`);
  const file = await open(temporary, "w", 0o600);
  try {
    await file.writeFile(JSON.stringify(state));
    if (durable) await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(folder, recordName));
  if (!durable) return;
  await syncFolder(folder);
  await syncFolder(join(folder, ".."));
}

/**
 * Reads every record under `jobs`, by job id; null for a record that is damaged. Folders without a
 * record are left out.
 */
export async function loadRecords(jobs: string): Promise<Map<string, JobState | null>> {
  const records = new Map<string, JobState | null>();
  for (const id of await readdir(jobs)) {
    const text = await readFile(join(jobs, id, recordName), "utf8").catch(absent);
    if (text !== null) records.set(id, parseRecord(text));
  }
  return records;
}

function parseRecord(text: string): JobState | null {
  try {
    const state = JSON.parse(text) as JobState;
    return typeof state.key === "string" && Array.isArray(state.stages) ? state : null;
  } catch {
    return null; // Only a disk that reported a false sync leaves half a record; the caller treats the job as lost.
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function absent(error: unknown): null {
  if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return null;
  throw error;
}
