import { liveGateRunStatuses } from "../../domain/status.ts";
import type { BuildRow, GateRunRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { emitFor, gateRunFacts } from "../build-events.ts";
import type { Ports } from "../port.ts";

export interface GateRefer {
  readonly gateRunId: string;
  readonly fence: number;
}

export interface LoadedGate {
  readonly run: GateRunRow;
  readonly build: BuildRow;
  readonly wave: WaveRow;
  readonly tasks: readonly TaskRow[];
}

export async function loadGate(ports: Ports, gateRunId: string): Promise<LoadedGate> {
  const { store } = ports;
  const run = await store.gateRuns.get({ id: gateRunId });
  const build = await store.builds.get({ id: run.buildId });
  const wave = await store.waves.get({ id: run.waveId });
  const tasks = await store.tasks.list({ buildId: build.id }, { by: "position" });
  return { run, build, wave, tasks };
}

const gateJobKey = (gateRunId: string, fence: number): string => `${gateRunId}-${fence}`;

/** The keys of all jobs a run may have had: one for each time it was asked for. */
export const jobKeysOf = ({ id, fence }: Pick<GateRunRow, "id" | "fence">): string[] =>
  Array.from({ length: fence + 1 }, (_, number) => gateJobKey(id, number));

/** Ends a gate run nobody needs any more: its verdict is not known. */
export async function abandonGate(
  transaction: Parameters<Parameters<Ports["store"]["transaction"]>[1]>[0],
  ports: Ports,
  gateRunId: string,
): Promise<void> {
  await transaction.gateRuns.update(
    { id: gateRunId, status: liveGateRunStatuses },
    { status: "finished", verdict: "inconclusive", reason: "the build was cancelled", endedAt: ports.clock.now() },
  );
}

/** Asks for a run under a higher fence, with a job and a tree of its own. */
export async function raiseGate(
  transaction: StoreTransaction,
  run: GateRunRow,
  patch: Partial<Pick<GateRunRow, "losses" | "evidence">>,
): Promise<void> {
  const build = await transaction.builds.get({ id: run.buildId });
  const wave = await transaction.waves.get({ id: run.waveId });
  const fence = run.fence + 1;
  await transaction.gateRuns.update(
    { id: run.id },
    { ...patch, status: "requested", fence, jobKey: gateJobKey(run.id, fence) },
  );
  await emitFor(transaction, build, `agent/quality.${run.gate}`, run.id, fence, gateRunFacts(run, wave, fence));
}
