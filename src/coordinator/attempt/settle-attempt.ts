import { waveRef } from "../names.ts";
import { advance } from "../next/advance.ts";
import { writePlanOut } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { clearPaths, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRefer, loadAttempt } from "./attempt.ts";
import { applyOutcome } from "./attempt-outcome.ts";

/** Settles the attempt and whatever follows from it, in one commit. */
export async function settleAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, wave, build } = loaded;
  if (attempt.status !== "finishing" || attempt.fence !== refer.fence) return;
  // Before it may be tried again, and so that nobody else goes on seeing it.
  if (sharesTree(attempt)) await clearPaths(ports, await ensureSandbox(ports, build), attempt);
  if (attempt.kind !== "task" && attempt.verdict?.outcome === "succeeded" && attempt.commitSha !== null) {
    // A projection of the row below: repeated with the same values after a crash.
    const ref = waveRef(attempt.buildId, wave.number);
    await ports.workspace.moveRef(build.projectId, ref, attempt.commitSha, attempt.baseSha);
  }
  await writePlanOut(ports, loaded);
  await ports.store.transaction("settle-attempt", async (transaction) => {
    const locked = await transaction.lockBuild(attempt.buildId);
    await applyOutcome(transaction, ports, refer);
    await advance(transaction, ports, attempt.buildId, { locked });
  });
}
