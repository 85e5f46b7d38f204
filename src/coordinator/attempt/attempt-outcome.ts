import { present } from "../../domain/known.ts";
import { maxLosses } from "../../domain/losses.ts";
import type { AttemptRow, StoreTransaction, TaskRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import { applyPlan } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { blockWave } from "../wave/block-wave.ts";
import { settleComments } from "../wave/comments.ts";
import type { AttemptRef } from "./attempt.ts";
import { addHeadAttempt, askHeadAttempt } from "./head-attempt.ts";

export async function applyOutcome(transaction: StoreTransaction, ports: Ports, attemptRef: AttemptRef): Promise<void> {
  const { attempt, task } = await transaction.attemptInContext(attemptRef.attemptId);
  if (attempt.fence !== attemptRef.fence || attempt.status === "settled") return;
  const verdict = attempt.verdict ?? {
    outcome: "lost" as const,
    reason: "its sandbox could not be reached",
    summary: null,
    changed: [],
  };
  const [updated] = await transaction.attempts.update(
    { id: attempt.id, fence: attemptRef.fence },
    { status: "settled", outcome: verdict.outcome, reason: verdict.reason, endedAt: ports.clock.now() },
  );
  const settled = present(updated, `attempt ${attempt.id}`);
  await settleComments(transaction, ports, settled);
  if (task !== null) await settleTask(transaction, ports, { attempt: settled, task });
  else await settleHeadAttempt(transaction, ports, settled);
}

async function settleTask(
  transaction: StoreTransaction,
  ports: Ports,
  { attempt, task }: { attempt: AttemptRow; task: TaskRow },
): Promise<void> {
  const set = (patch: Partial<TaskRow>) => transaction.tasks.update({ id: task.id }, patch);
  switch (attempt.outcome) {
    case "succeeded":
      await applyPlan(transaction, ports, attempt);
      await set({
        status: "joining",
        commitSha: attempt.verdict?.plan === undefined ? attempt.commitSha : null,
        summary: attempt.verdict?.summary ?? null,
        changedFiles: attempt.verdict?.changed ?? [],
        reason: null,
      });
      return;
    case "cancelled":
      await set({ status: "cancelled", reason: attempt.reason });
      return;
    case "lost":
      if (task.losses < maxLosses) {
        await set({ status: "assigned", losses: task.losses + 1, epoch: task.epoch + 1 });
        return;
      }
      break;
    case "over-budget":
      break;
    default:
      if (task.retriesUsed < task.definition.retries) {
        await set({
          status: "assigned",
          retriesUsed: task.retriesUsed + 1,
          epoch: task.epoch + 1,
          reason: attempt.reason,
        });
        return;
      }
  }
  await set({ status: "failed", reason: attempt.reason, endedAt: ports.clock.now() });
  const build = await transaction.builds.get({ id: attempt.buildId });
  const wave = await transaction.waves.get({ id: attempt.waveId });
  await eventsOf(transaction, build).taskFailed(task, wave, {
    outcome: present(attempt.outcome, "the outcome"),
    reason: attempt.reason ?? "",
  });
}

/** Settles a fix or a generate attempt; a new head repeats every gate (W7). */
async function settleHeadAttempt(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const wave = await transaction.waves.get({ id: attempt.waveId });
  const build = await transaction.builds.get({ id: attempt.buildId });
  if (attempt.outcome === "succeeded") {
    await transaction.waves.update(
      { id: wave.id },
      { status: "gating", headSha: attempt.commitSha ?? attempt.baseSha },
    );
    return;
  }
  const { kind, epoch } = attempt;
  const lost = await transaction.attempts.list({ waveId: wave.id, kind, epoch, outcome: "lost" });
  if (attempt.outcome === "lost" && lost.length <= maxLosses && build.status === "running") {
    await repeatHeadAttempt(transaction, ports, attempt);
    return;
  }
  if (attempt.kind === "fix") {
    await transaction.waves.update({ id: wave.id }, { status: "gating" });
    return;
  }
  if (build.status !== "running") return; // a cancelled build cancels the wave itself
  const reason = `generated files could not be regenerated: ${attempt.reason}`;
  await blockWave(transaction, ports, { build, wave }, reason);
}

async function repeatHeadAttempt(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const wave = await transaction.waves.get({ id: attempt.waveId });
  const build = await transaction.builds.get({ id: attempt.buildId });
  const { kind, role, gateRunId, approvalId, paths, baseSha } = attempt;
  if (kind === "task") return;
  const retryAttempt = await addHeadAttempt(
    transaction,
    ports,
    { build, wave, baseSha },
    { kind, role, gateRunId, approvalId, paths },
  );
  await askHeadAttempt(transaction, { build, wave }, retryAttempt);
}
