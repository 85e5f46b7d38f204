import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { Context } from "../context.ts";
import { isUsed, type Store } from "../parts.ts";

/**
 * Finds a build by id or by the beginning of one, with or without `bld_`. Fails with `not-found`.
 */
export async function findBuildByName(store: Store, context: Context, name: string): Promise<string> {
  const given = name.trim().toLowerCase();
  const wanted = given.startsWith("bld_") ? given : `bld_${given}`;
  if ((await store.builds.find({ id: wanted })) !== null) return wanted;
  const ids = (await store.builds.list({})).map((build) => build.id).filter((id) => id.startsWith(wanted));
  if (ids.length === 1 && wanted !== "bld_") return itemAt(ids, 0);
  const remedy = `see ${context.hints.command("builds")}`;
  if (ids.length > 1 && wanted !== "bld_") {
    throw new WavesmithError("usage", `${name} may be any of ${ids.slice(0, 5).join(", ")}: type more of the id`, {
      remedy,
    });
  }
  throw new WavesmithError("not-found", `there is no build ${name} in ${(await context.config()).dataDir}`, { remedy });
}

/**
 * Finds the named build, or else the latest one (of the project, if one is given). Fails with
 * `not-found`.
 */
export async function findBuildOrLatest(store: Store, context: Context, name: string | undefined): Promise<string> {
  if (name !== undefined) return findBuildByName(store, context, name);
  const { project } = context.options;
  const { projectIdFor } = await import("../../coordinator/build/request/project.ts");
  const latest = await store.builds.find(project === undefined ? {} : { projectId: projectIdFor("default", project) }, {
    by: "createdAt",
    descending: true,
  });
  if (latest !== null) return latest.id;
  throw noBuild(context, project === undefined ? (await context.config()).dataDir : `project ${project}`);
}

/**
 * Fails with `not-found` if nothing was ever built in the data directory, before a command that needs
 * a build creates a database there.
 */
export async function requireBuilds(context: Context): Promise<void> {
  const config = await context.config();
  if (!isUsed(config)) throw noBuild(context, config.dataDir);
}

const noBuild = ({ hints }: Context, where: string): WavesmithError =>
  new WavesmithError("not-found", `there is no build in ${where} yet`, { remedy: hints.command("build PLAN") });
