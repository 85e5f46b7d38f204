import { createBuildReader } from "../../coordinator/build/read-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { isServed } from "../../store/serving.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { withSteering } from "../data/steering.ts";
import { exit } from "../output/exit-codes.ts";
import { shortSha } from "../output/format.ts";
import { requester } from "../request/requester.ts";
import { nextLines } from "../view/summary.ts";

/**
 * `approve [BUILD] [--resume]`: approves the waiting wave, and then continues the build if asked.
 */
export async function approve(
  context: Context,
  name: string | undefined,
  { resume: goesOn, wait }: { resume: boolean; wait: boolean },
): Promise<number> {
  let approved = "";
  const code = await withSteering(context, async ({ app, database }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    approved = buildId;
    const { approveWave } = await import("../../coordinator/wave/decide-wave.ts");
    const pushed = await approveWave(app.ports, buildId, { by: requester() });
    if (pushed !== null && !context.json) {
      context.out.line(`your commits up to ${shortSha(pushed)} are part of it: they go through the gates first`);
    }
    return goesOn ? exit.ok : printDecision(context, { app, database, buildId }, "approved");
  });
  if (!goesOn) return code;
  const { resume } = await import("./resume.ts");
  return resume(context, approved, { wait });
}

/** `reject BUILD --reason …`: blocks the waiting wave; a retry gives the reason to the fixer. */
export function reject(context: Context, name: string | undefined, reason: string | undefined): Promise<number> {
  if (reason === undefined || reason.trim() === "") {
    throw new WavesmithError("usage", "reject needs a reason", {
      remedy: context.hints.command(`reject ${name ?? "BUILD"} --reason "what has to be different"`),
    });
  }
  return withSteering(context, async ({ app, database }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    const { rejectWave } = await import("../../coordinator/wave/decide-wave.ts");
    await rejectWave(app.ports, buildId, { by: requester(), reason });
    return printDecision(context, { app, database, buildId }, "rejected");
  });
}

interface Decided {
  readonly app: Parameters<Parameters<typeof withSteering>[1]>[0]["app"];
  readonly database: Parameters<typeof isServed>[0];
  readonly buildId: string;
}

async function printDecision(context: Context, { app, database, buildId }: Decided, decision: string): Promise<number> {
  const { projectId, status } = await app.store.builds.get({ id: buildId });
  if (context.json) {
    context.out.json({ buildId, decision, status });
    return exit.ok;
  }
  context.out.line(`build ${buildId}: ${decision}`);
  const view = await createBuildReader(app.store, buildId).read();
  if (["completed", "failed", "cancelled"].includes(status)) {
    for (const { tone, text } of nextLines(view, context.hints)) context.out.line(context.out.paint(tone, text));
  } else if (!(await isServed(database, projectId))) {
    context.out.line(`next: ${context.hints.command(`resume ${buildId}`)}`);
  }
  return exit.ok;
}
