import { createHash } from "node:crypto";
import type { EngineContext } from "../context.ts";
import type { EngineQueryable } from "../database.ts";
import type { EngineEvent } from "../port.ts";
import type { FunctionSpec } from "../registration/registry.ts";
import { insertEvents, type RunStart, type StoredEvent } from "./event-store.ts";
import type { RunEnd } from "./transition.ts";

export interface Dispatch {
  readonly events: readonly StoredEvent[];
  readonly runs: readonly RunStart[];
}

/**
 * Returns the runs that events start; of events with the same name and id only the first counts.
 */
export function dispatchOf(context: EngineContext, sent: readonly EngineEvent[]): Dispatch {
  const events = new Map<string, StoredEvent>();
  for (const event of sent) {
    const key = JSON.stringify([event.name, event.id]);
    if (!events.has(key)) events.set(key, { ts: context.nowMs(), ...event });
  }
  const specs = [...context.specs().values()];
  const runs = [...events.values()].flatMap((event) => {
    const partition = context.partition(event);
    return specs.filter((spec) => spec.matches(event)).map((spec) => runStart(spec, event, partition));
  });
  return { events: [...events.values()], runs };
}

/** Derives a run's id from its function and event, so that starting it twice starts it once. */
export function runStart(spec: FunctionSpec, event: StoredEvent, partition: string | null): RunStart {
  const digest = createHash("sha256")
    .update(JSON.stringify([spec.id, event.name, event.id]))
    .digest("hex");
  return { runId: `run_${digest.slice(0, 32)}`, functionId: spec.id, event, partition, slots: spec.slots(event) };
}

export interface EndedRun {
  readonly runId: string;
  readonly functionId: string;
  readonly event: StoredEvent;
  readonly partition: string | null;
}

const failedName = "inngest/function.failed";
const finishedName = "inngest/function.finished";

/** Returns the runs that a run's end starts; lifecycle events that start nothing are left out. */
export function lifecycleOf(context: EngineContext, run: EndedRun, end: RunEnd): Dispatch {
  // A function triggered by these events would otherwise start itself again and again.
  if (run.event.name === failedName || run.event.name === finishedName) return { events: [], runs: [] };
  const common = { function_id: run.functionId, run_id: run.runId, event: run.event, events: [run.event] };
  const outcome = end.status === "completed" ? { result: end.result } : { error: end.error };
  const names = end.status === "failed" ? [failedName, finishedName] : [finishedName];
  const events = names.map((name) => ({ name, id: run.runId, ts: context.nowMs(), data: { ...common, ...outcome } }));
  const runs = events.flatMap((event) =>
    [...context.specs().values()]
      .filter((spec) => spec.matches(event))
      .map((spec) => runStart(spec, event, run.partition)),
  );
  return { events: events.filter((event) => runs.some((start) => start.event === event)), runs };
}

/** Stores the events and runs of a dispatch, in the transaction of `on` if it has one. */
export async function writeDispatch(context: EngineContext, on: EngineQueryable, dispatch: Dispatch): Promise<void> {
  if (dispatch.events.length > 0) await insertEvents(on, dispatch.events, dispatch.runs, context.nowMs());
}
