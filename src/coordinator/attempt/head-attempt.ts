import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { headAttemptRef, headTreePath } from "../names.ts";
import type { Ports } from "../port.ts";

export interface FixCause {
  readonly gateRunId: string | null;
  readonly approvalId: string | null;
}

/** Adds an attempt on the wave's head: a fix, or generated files made again. */
export async function addHeadAttempt(
  transaction: StoreTransaction,
  ports: Ports,
  state: { build: BuildRow; wave: WaveRow; baseSha: string },
  what: FixCause & { kind: "fix" | "generate"; role: string; paths: string[] },
): Promise<{ id: string; number: number }> {
  const { build, wave, baseSha } = state;
  const number = (await transaction.attempts.list({ waveId: wave.id, kind: what.kind })).length + 1;
  const id = ports.ids("attempt");
  await transaction.attempts.insert({
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
  return { id, number };
}

/**
 * Asks for an attempt on a wave's head: `agent/quality.fix`, or `agent/execution.<role>` for
 * generated files.
 */
export async function askHeadAttempt(
  transaction: StoreTransaction,
  build: Parameters<typeof emitFor>[1],
  waveNumber: number,
  what: { id: string; number: number; kind: "fix" | "generate"; role: string },
): Promise<void> {
  const { id, number, role } = what;
  const ref = { waveNumber, attemptId: id, taskId: null, taskKey: null, attempt: number, fence: 0 };
  if (what.kind === "fix") {
    await emitFor(transaction, build, "agent/quality.fix", id, 0, { ...ref, gate: "repeated", round: number });
  } else await emitFor(transaction, build, `agent/execution.${role}`, id, 0, { ...ref, role });
}

/** Has these generated files made again on the wave's head. */
export async function askGenerate(
  transaction: StoreTransaction,
  ports: Ports,
  on: { build: BuildRow; wave: WaveRow; baseSha: string },
  paths: string[],
): Promise<void> {
  const what = { kind: "generate" as const, role: "integration", gateRunId: null, approvalId: null, paths };
  const attempt = await addHeadAttempt(transaction, ports, on, what);
  await askHeadAttempt(transaction, on.build, on.wave.number, { ...attempt, ...what });
}
