import { headAttemptRef } from "../../domain/refs/build-refs.ts";
import { headTreePath } from "../../domain/sandbox/volume-paths.ts";
import type { AttemptRow, BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

export interface FixCause {
  readonly gateRunId: string | null;
  readonly approvalId: string | null;
}

/** Adds an attempt on the wave's head: a fix, or the regeneration of generated files. */
export async function addHeadAttempt(
  transaction: StoreTransaction,
  ports: Ports,
  state: { build: BuildRow; wave: WaveRow; baseSha: string },
  what: FixCause & { kind: "fix" | "generate"; role: string; paths: string[] },
): Promise<AttemptRow> {
  const { build, wave, baseSha } = state;
  const number = (await transaction.attempts.list({ waveId: wave.id, kind: what.kind })).length + 1;
  const id = ports.ids("attempt");
  return transaction.attempts.insert({
    id,
    buildId: build.id,
    waveId: wave.id,
    taskId: null,
    kind: what.kind,
    role: what.role,
    number,
    status: "requested",
    baseSha,
    treePath: headTreePath(build.id, what.kind, wave.number, number),
    ref: headAttemptRef(build.id, what.kind, wave.number, number),
    jobKey: `${id}-0`,
    gateRunId: what.gateRunId,
    approvalId: what.approvalId,
    epoch: wave.epoch,
    paths: what.paths,
    createdAt: ports.clock.now(),
  });
}

/**
 * Requests an attempt on a wave's head, by `agent/quality.fix`, or by `agent/execution.<role>` for
 * generated files.
 */
export async function askHeadAttempt(
  transaction: StoreTransaction,
  { build, wave }: { build: BuildRow; wave: WaveRow },
  attempt: AttemptRow,
): Promise<void> {
  const events = eventsOf(transaction, build);
  if (attempt.kind === "fix") await events.fixWave(attempt, wave, { gate: "repeated", round: attempt.number });
  else await events.executeTask(attempt, wave, null);
}

/** Requests the regeneration of these files on the wave's head. */
export async function askGenerate(
  transaction: StoreTransaction,
  ports: Ports,
  on: { build: BuildRow; wave: WaveRow; baseSha: string },
  paths: string[],
): Promise<void> {
  const what = { kind: "generate" as const, role: "integration", gateRunId: null, approvalId: null, paths };
  const attempt = await addHeadAttempt(transaction, ports, on, what);
  await askHeadAttempt(transaction, on, attempt);
}
