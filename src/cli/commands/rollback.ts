import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { findBuild } from "../find-build.ts";
import { withSteering } from "../steering.ts";

/**
 * `rollback BUILD --wave N`: moves main back to wave N's restore point; 0 is where the build began.
 */
export function rollback(context: Context, name: string, wave: string | undefined): Promise<number> {
  if (wave === undefined || !/^\d{1,6}$/.test(wave)) {
    throw new WavesmithError("usage", "rollback needs a wave number", {
      remedy: context.hints.command(`rollback ${name} --wave 1`),
    });
  }
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuild(app.store, context, name);
    const { rollbackBuild } = await import("../../coordinator/build/rollback-build.ts");
    await rollbackBuild(app.ports, buildId, Number(wave));
    const { headSha } = await app.store.builds.get({ id: buildId });
    if (context.json) {
      context.out.json({ buildId, wave: Number(wave), head: headSha, status: "waiting" });
      return exit.ok;
    }
    context.out.line(`build ${buildId} is back at wave ${wave}, main at ${headSha}`);
    context.out.line(`the previous commits are kept under refs/rescue/${buildId}/`);
    context.out.line(`next: ${context.hints.command(`resume ${buildId}`)}`);
    return exit.ok;
  });
}
