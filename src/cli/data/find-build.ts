import { chooseBuild, noBuildIn } from "../builds/choose-build.ts";
import { directoryBuilds } from "../builds/directory.ts";
import { type Context, refuseServer } from "../context.ts";
import { isUsed, type Store } from "../parts.ts";

/**
 * Finds the named build in a data directory, or else the latest one (of the project, if one is
 * given). Fails with `not-found`.
 */
export async function findBuildOrLatest(store: Store, context: Context, name: string | undefined): Promise<string> {
  const database = () => Promise.reject(new Error("no build is looked at"));
  return chooseBuild(directoryBuilds({ config: await context.config(), store, database }), context, name);
}

/**
 * Fails with `unsupported` for a server, and with `not-found` if nothing was ever built in the data
 * directory. Call this before a command that needs a build, so that it creates no database there.
 */
export async function requireBuilds(context: Context): Promise<void> {
  await refuseServer(context);
  const config = await context.config();
  if (!isUsed(config)) throw noBuildIn(config.dataDir, context);
}
