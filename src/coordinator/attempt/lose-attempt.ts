import { liveAttemptStatuses } from "../../domain/status.ts";
import { attemptMask } from "../job/job-results.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { type AttemptRef, loadAttempt } from "./attempt.ts";
import { applyOutcome } from "./attempt-outcome.ts";

/** Settles an attempt that could not be started, as lost to infrastructure (W4). */
export async function loseAttempt(ports: Ports, attemptRef: AttemptRef, reason: string): Promise<void> {
  const { attempt, build } = await loadAttempt(ports, attemptRef.attemptId);
  const why = (await attemptMask(ports, build, attempt))(reason);
  await ports.store.transaction("lose-attempt", async (transaction) => {
    const locked = await transaction.lockBuild(attempt.buildId);
    const [lost] = await transaction.attempts.update(
      { id: attempt.id, fence: attemptRef.fence, status: liveAttemptStatuses },
      { status: "finishing", verdict: { outcome: "lost", reason: why, summary: null, changed: [] } },
    );
    if (lost === undefined) return;
    await applyOutcome(transaction, ports, attemptRef);
    await advance(transaction, ports, attempt.buildId, { locked });
  });
}
