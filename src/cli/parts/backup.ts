// Gives commands access to backups. Like an entry point, it may import everything.

import { fileURLToPath } from "node:url";
import type { RestoredBackup } from "../../app/backup/read-backup.ts";
import type { WrittenBackup } from "../../app/backup/write-backup.ts";
import { present } from "../../domain/known.ts";
import { type Config, openStore } from "../parts.ts";

/** Writes a backup; see `writeBackup`. */
export async function backUp(config: Config, path: string): Promise<WrittenBackup> {
  const { writeBackup } = await import("../../app/backup/write-backup.ts");
  const { repositoriesLock } = await import("../../app/retention/collect-garbage.ts");
  const { store, database, close } = await openStore(config, "backup");
  try {
    const write = () => writeBackup(config, database.pool, path);
    return present(await store.alone(repositoriesLock, write, { wait: true }), "the result"); // it waits, so it is never null
  } finally {
    await close();
  }
}

/** Restores a backup; see `readBackup`. */
export async function restoreBackup(config: Config, path: string): Promise<RestoredBackup> {
  const { readBackup } = await import("../../app/backup/read-backup.ts");
  return readBackup(config, path, fileURLToPath(new URL("../../../drizzle", import.meta.url)));
}
