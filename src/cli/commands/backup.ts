import { resolve } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, count } from "../output/format.ts";
import { backUp, restoreFromBackup } from "../parts/backup.ts";
import { isUsed } from "../parts.ts";

/**
 * `backup FILE`: writes everything that another machine needs to continue the builds into one file.
 */
export async function backup(context: Context, file: string): Promise<number> {
  await refuseServer(context, "a backup holds the keys and the files of the machine");
  const config = await context.config();
  if (!isUsed(config)) {
    throw new WavesmithError("not-found", `there is nothing to back up in ${config.dataDir}`, {
      remedy: "name the data directory: --data DIR",
    });
  }
  const path = resolve(file);
  const { sizeBytes, projects } = await backUp(config, path);
  if (context.json) context.out.json({ type: "backup", file: path, sizeBytes, projects });
  else {
    context.out.line(`${path}: ${count(projects, "project")}, ${bytesText(sizeBytes)}`);
    context.out.line("keep it private: it holds the server's key and everything that agents printed");
  }
  return exit.ok;
}

/** `restore FILE`: makes a new data directory from a backup. */
export async function restore(context: Context, file: string): Promise<number> {
  await refuseServer(context, "it makes a new data directory");
  const config = await context.config();
  const { createdAt, projects } = await restoreFromBackup(config, resolve(file));
  const { dataDir } = config;
  if (context.json) context.out.json({ type: "restored", dataDir, createdAt, projects });
  else {
    context.out.line(`${dataDir}: ${count(projects, "project")}, as of ${createdAt}`);
    context.out.line(`to continue the builds that were running: ${context.hints.command("serve")}`);
  }
  return exit.ok;
}
