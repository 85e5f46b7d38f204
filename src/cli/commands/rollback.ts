import { WavesmithError } from "../../domain/errors.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withDecision } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { count } from "../output/format.ts";

export interface RollbackOptions {
  readonly wave: string | undefined;
  readonly undo: boolean;
}

/**
 * `rollback BUILD --wave N`: moves main back to wave N's restore point; 0 is where the build began.
 * `rollback BUILD --undo` takes the last rollback back.
 */
export function rollback(context: Context, name: string | undefined, options: RollbackOptions): Promise<number> {
  const { wave, undo } = options;
  const { hints } = context;
  if (undo && wave === undefined) return undoLast(context, name);
  if (undo) {
    throw new WavesmithError("usage", "--undo takes no --wave: it undoes the last rollback", {
      remedy: hints.command(`rollback ${name ?? "BUILD"} --undo`),
    });
  }
  if (wave === undefined || !/^\d{1,6}$/.test(wave)) {
    throw new WavesmithError("usage", "rollback needs a wave number", {
      remedy: hints.command(`rollback ${name ?? "BUILD"} --wave 1`),
    });
  }
  return withDecision(context, async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    await builds.rollback(buildId, Number(wave));
    const { headSha } = (await builds.see(buildId)).view.build;
    if (context.json) {
      context.out.json({ buildId, wave: Number(wave), head: headSha, status: "waiting" });
      return exit.ok;
    }
    context.out.line(`build ${buildId} is back at wave ${wave}, main at ${headSha}`);
    context.out.line(`the previous commits are kept under refs/rescue/${buildId}/`);
    context.out.line(
      `next: ${hints.command(`resume ${buildId}`)}, or undo it: ${hints.command(`rollback ${buildId} --undo`)}`,
    );
    return exit.ok;
  });
}

function undoLast(context: Context, name: string | undefined): Promise<number> {
  return withDecision(context, async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    await builds.undoRollback(buildId);
    const { build, waves } = (await builds.see(buildId)).view;
    const { headSha, status } = build;
    const passed = waves.filter((wave) => wave.status === "passed");
    if (context.json) {
      context.out.json({ buildId, undone: true, head: headSha, status });
      return exit.ok;
    }
    context.out.line(`build ${buildId} is ${status} again, with ${count(passed.length, "passed wave")}`);
    context.out.line(`main is at ${headSha}, where it was before the rollback`);
    return exit.ok;
  });
}
