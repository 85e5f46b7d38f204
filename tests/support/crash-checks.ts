import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { createStore } from "../../src/store/store.ts";
import type { TestDatabase } from "./database.ts";

// Checks for a build that was brought to its end by processes that died and others that took over.

/** Nothing is running, held or unsent. */
export async function checkRows(database: TestDatabase, store: ReturnType<typeof createStore>): Promise<void> {
  const jobs = await store.jobs.list({});
  expect(jobs.filter((job) => job.status !== "ended")).toEqual([]);
  expect(jobs.filter((job) => job.leaseOwner !== null)).toEqual([]);
  expect(await store.outbox.list({ sentAt: null })).toEqual([]);
  expect(await store.gateRuns.list({ status: ["requested", "running"] })).toEqual([]);
  // A cron may start at any time; the next process continues it.
  const open = await database.pool.query(
    "select from engine.runs where status = 'running' and function_id !~ '-(sandbox|snapshot)-'",
  );
  expect(open.rowCount).toBe(0);
  const held = await database.pool.query("select from engine.jobs where holder is not null");
  expect(held.rowCount).toBe(0);
}

/** Lists what a build left on a volume. */
export function leftOn(volume: string, buildId: string): string[] {
  // Unfinished files of `sync` are removed after an hour.
  return [`trees/${buildId}`, "handover", "keep"].flatMap((folder) => {
    const path = join(volume, folder);
    return existsSync(path) ? readdirSync(path).map((name) => `${folder}/${name}`) : [];
  });
}

/** Lists locks that git left in a repository. */
export const locksIn = (repository: string): string[] =>
  readdirSync(repository, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".lock"));
