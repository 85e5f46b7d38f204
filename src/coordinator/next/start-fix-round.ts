import { present } from "../../domain/known.ts";
import type { GateName } from "../../domain/status.ts";
import type { StoreTransaction } from "../../store/port.ts";
import { addHeadAttempt, type FixCause } from "../attempt/head-attempt.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";
import { giveComments } from "../wave/comments.ts";
import type { WaveState } from "./facts.ts";

/** Begins a fix round of the wave, and requests its fixer, after a failed gate or a rejection. */
export async function startFixRound(
  transaction: StoreTransaction,
  ports: Ports,
  state: WaveState,
  gate: GateName | "approval",
): Promise<void> {
  const { build } = state;
  const wave = state.wave;
  const cause = await causeOfFix(transaction, state, gate);
  const round = wave.fixRounds + 1;
  await transaction.waves.update({ id: wave.id }, { status: "fixing", fixRounds: round });
  const attempt = await addHeadAttempt(
    transaction,
    ports,
    { build, wave, baseSha: present(wave.headSha, "wave.headSha") },
    { kind: "fix", role: "fixer", ...cause, paths: [] },
  );
  await giveComments(transaction, attempt);
  await eventsOf(transaction, build).fixWave(attempt, wave, { gate, round });
}

/** Returns the gate run or rejection that caused a fix. */
async function causeOfFix(
  transaction: StoreTransaction,
  state: WaveState,
  gate: GateName | "approval",
): Promise<FixCause> {
  const { id: waveId, headSha } = state.wave;
  if (gate === "approval") {
    const by = { by: "createdAt", descending: true } as const;
    const rejection = await transaction.approvals.find(
      { waveId, sha: present(headSha, "headSha"), decision: "rejected" },
      by,
    );
    // Without a rejection, people's comments are the cause.
    return { gateRunId: null, approvalId: rejection?.id ?? null };
  }
  const run = state.gateRuns.findLast((candidate) => candidate.gate === gate && candidate.sha === headSha);
  return { gateRunId: present(run, `the run of ${gate}`).id, approvalId: null };
}
