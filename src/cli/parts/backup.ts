// Gives commands access to backups. Like an entry point, it may import everything.

import { fileURLToPath } from "node:url";
import type { RestoredBackup } from "../../app/backup/restore-backup.ts";
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

/** Restores a backup; see `restoreBackup`. */
export async function restoreFromBackup(config: Config, path: string): Promise<RestoredBackup> {
  const { restoreBackup } = await import("../../app/backup/restore-backup.ts");
  return restoreBackup(config, path, fileURLToPath(new URL("../../../drizzle", import.meta.url)));
}
