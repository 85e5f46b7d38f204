import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import type { Builds } from "./port.ts";

type Choice = Pick<Builds, "place" | "idsLike" | "latest">;

/**
 * Finds a build by id or by the beginning of one, with or without `bld_`. Fails with `not-found`.
 */
export async function chooseNamedBuild(builds: Choice, context: Context, name: string): Promise<string> {
  const given = name.trim().toLowerCase();
  const wanted = given.startsWith("bld_") ? given : `bld_${given}`;
  const ids = wanted === "bld_" ? [] : await builds.idsLike(wanted);
  if (ids.length === 1) return ids[0]!;
  const remedy = `see ${context.hints.command("builds")}`;
  if (ids.length > 1) {
    throw new WavesmithError("usage", `${name} could be any of ${ids.slice(0, 5).join(", ")}: type more of the id`, {
      remedy,
    });
  }
  throw new WavesmithError("not-found", `there is no build ${name} in ${builds.place}`, { remedy });
}

/**
 * Finds the named build, or else the latest one (of the project, if one is given). Fails with
 * `not-found`.
 */
export async function chooseBuild(builds: Choice, context: Context, name: string | undefined): Promise<string> {
  if (name !== undefined) return chooseNamedBuild(builds, context, name);
  const { project } = context.options;
  const latest = await builds.latest(project);
  if (latest !== null) return latest;
  const where = project === undefined ? builds.place : `project ${project}`;
  throw noBuildIn(where, context);
}

export const noBuildIn = (where: string, { hints }: Context): WavesmithError =>
  new WavesmithError("not-found", `there is no build in ${where} yet`, { remedy: hints.command("build PLAN") });
