import { liveGateRunStatuses } from "../../domain/status.ts";
import type { BuildRow, GateRunRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

export interface GateRunRef {
  readonly gateRunId: string;
  readonly fence: number;
}

/** A gate run that has been requested, and therefore has a key for its job. */
export type AskedGateRun = GateRunRow & { readonly jobKey: string };

export interface LoadedGate {
  readonly run: AskedGateRun;
  readonly build: BuildRow;
  readonly wave: WaveRow;
  readonly tasks: readonly TaskRow[];
}

export async function loadGate(ports: Ports, gateRunId: string): Promise<LoadedGate> {
  const { store } = ports;
  const run = await store.gateRuns.get({ id: gateRunId });
  const build = await store.builds.get({ id: run.buildId });
  const wave = await store.waves.get({ id: run.waveId });
  const tasks = await tasksOfBuild(store, build.id);
  return { run: { ...run, jobKey: run.jobKey ?? gateJobKey(run.id, run.fence) }, build, wave, tasks };
}

const gateJobKey = (gateRunId: string, fence: number): string => `${gateRunId}-${fence}`;

/** Returns the keys of all jobs a run may have had: one for each request. */
export const jobKeysOf = ({ id, fence }: Pick<GateRunRow, "id" | "fence">): string[] =>
  Array.from({ length: fence + 1 }, (_, number) => gateJobKey(id, number));

/** Ends a gate run that is no longer needed, without a verdict. */
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

/** Requests a run again under a higher fence, with its own job and tree. */
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
  await eventsOf(transaction, build).runGate({ ...run, fence }, wave);
}
