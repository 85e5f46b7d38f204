import { waveRef } from "../../domain/refs/build-refs.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { advance } from "../next/advance.ts";
import { writePlanOut } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { clearPaths, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRef, loadAttempt } from "./attempt.ts";
import { applyOutcome } from "./attempt-outcome.ts";

/** Settles the attempt, with everything that follows from it, in one commit. */
export async function settleAttempt(ports: Ports, attemptRef: AttemptRef): Promise<void> {
  const loaded = await loadAttempt(ports, attemptRef.attemptId);
  const { attempt, wave, build } = loaded;
  if (attempt.status !== "finishing" || attempt.fence !== attemptRef.fence) return;
  // Clear its paths before the next attempt, and so that other tasks no longer see its changes.
  if (sharesTree(attempt)) await clearPaths(ports, await ensureSandbox(ports, build), attempt);
  if (attempt.kind !== "task" && attempt.verdict?.outcome === "succeeded" && attempt.commitSha !== null) {
    // The ref is a projection of the row below, so a crash repeats this with the same values.
    const ref = waveRef(attempt.buildId, wave.number);
    await ports.workspace.moveRef(build.projectId, ref, attempt.commitSha, attempt.baseSha);
  }
  await writePlanOut(ports, loaded);
  await ports.store.transaction("settle-attempt", async (transaction) => {
    const locked = await transaction.lockBuild(attempt.buildId);
    await applyOutcome(transaction, ports, attemptRef);
    await advance(transaction, ports, attempt.buildId, { locked });
  });
}
