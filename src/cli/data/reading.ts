import { type Context, refuseServer } from "../context.ts";
import { type Config, type Database, isUsed, openStore, type Store } from "../parts.ts";
import { requireBuilds } from "./find-build.ts";

export interface Reading {
  readonly config: Config;
  readonly store: Store;
  readonly database: Database;
}

/**
 * Opens the database for a command that only reads. If nothing was ever built in the data
 * directory, calls `unused`, or without it fails with `not-found`.
 */
export async function withStore(
  context: Context,
  purpose: string,
  options: { read: (reading: Reading) => Promise<number>; unused?: (config: Config) => number },
): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  if (options.unused !== undefined && !isUsed(config)) return options.unused(config);
  await requireBuilds(context);
  const { store, database } = await openStore(config, purpose, context.warn);
  try {
    return await options.read({ config, store, database });
  } finally {
    await database.close();
  }
}
