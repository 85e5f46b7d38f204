import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { findBuild } from "../find-build.ts";
import { requester } from "../requester.ts";
import { isServed } from "../serving.ts";
import { withSteering } from "../steering.ts";

/** `approve BUILD`: approves the waiting wave. */
export function approve(context: Context, name: string): Promise<number> {
  return withSteering(context, async ({ app, database }) => {
    const buildId = await findBuild(app.store, context, name);
    const { approveWave } = await import("../../coordinator/wave/decide-wave.ts");
    await approveWave(app.ports, buildId, { by: requester() });
    return tell(context, { app, database, buildId }, "approved");
  });
}

/** `reject BUILD --reason …`: blocks the waiting wave; a retry gives the reason to the fixer. */
export function reject(context: Context, name: string, reason: string | undefined): Promise<number> {
  if (reason === undefined || reason.trim() === "") {
    throw new WavesmithError("usage", "reject needs a reason", {
      remedy: context.hints.command(`reject ${name} --reason "what has to be different"`),
    });
  }
  return withSteering(context, async ({ app, database }) => {
    const buildId = await findBuild(app.store, context, name);
    const { rejectWave } = await import("../../coordinator/wave/decide-wave.ts");
    await rejectWave(app.ports, buildId, { by: requester(), reason });
    return tell(context, { app, database, buildId }, "rejected");
  });
}

interface Decided {
  readonly app: Parameters<Parameters<typeof withSteering>[1]>[0]["app"];
  readonly database: Parameters<typeof isServed>[0];
  readonly buildId: string;
}

async function tell(context: Context, { app, database, buildId }: Decided, decision: string): Promise<number> {
  const { projectId, status } = await app.store.builds.get({ id: buildId });
  if (context.json) {
    context.out.json({ buildId, decision, status });
    return exit.ok;
  }
  context.out.line(`build ${buildId}: ${decision}`);
  const over = ["completed", "failed", "cancelled"].includes(status);
  const next = decision === "approved" ? "resume" : "retry";
  if (over || !(await isServed(database, projectId))) {
    context.out.line(
      `next: ${context.hints.command(`${decision === "rejected" && !over ? "resume" : next} ${buildId}`)}`,
    );
  }
  return exit.ok;
}
