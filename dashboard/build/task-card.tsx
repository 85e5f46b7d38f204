import type { ApiType } from "../../src/client/client.ts";
import { StatusDot } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";

export interface TaskCardData {
  readonly task: ApiType<"GraphTask">;
  readonly state: ApiType<"TaskState"> | undefined;
  /** Its last attempt. */
  readonly work: ApiType<"Work"> | undefined;
  readonly isCritical: boolean;
}

/** The data on a task's card. */
export function taskCards(
  graph: ApiType<"BuildGraph">,
  states: readonly ApiType<"TaskState">[],
): ReadonlyMap<string, TaskCardData> {
  const stateOf = new Map(states.map((state) => [state.id, state]));
  const workOf = new Map<string, ApiType<"Work">>();
  for (const { work } of graph.waves) for (const one of work) if (one.task !== null) workOf.set(one.task, one);
  // A path of only one task is not worth showing.
  const critical = new Set(graph.criticalPath.length > 1 ? graph.criticalPath : []);
  return new Map(
    graph.tasks.map((task) => [
      task.id,
      { task, state: stateOf.get(task.id), work: workOf.get(task.id), isCritical: critical.has(task.id) },
    ]),
  );
}

/** One task in a graph, a list or a board. */
export function TaskCard({ task, state, work, isCritical }: TaskCardData) {
  const status = state?.status ?? task.status;
  const note = noteOf(task, state, work);
  return (
    <>
      <span className="row tight">
        <StatusDot status={status} />
        <span className="clip grow task-name">{task.id}</span>
        {work !== undefined && (
          <span className="tiny faint">
            <Took from={work.startedAt} to={work.endedAt} />
          </span>
        )}
      </span>
      <span className="row tight tiny faint">
        <span className="chip">{task.agent}</span>
        {isCritical && (
          <span title="On the critical path: a delay here delays the build" className="critical-mark">
            critical
          </span>
        )}
        {(state?.attempts ?? 0) > 1 && <span className="num">{state?.attempts} attempts</span>}
      </span>
      <span className="clip tiny faint task-note">{note}</span>
    </>
  );
}

function noteOf(
  task: ApiType<"GraphTask">,
  state: ApiType<"TaskState"> | undefined,
  work: ApiType<"Work"> | undefined,
): string {
  const status = state?.status ?? task.status;
  if (status === "failed") return state?.reason ?? "failed";
  if (work?.endedAt === null && work.lastAction !== null) return work.lastAction;
  if (state?.waitsFor != null) return `waiting for ${state.waitsFor}`;
  return task.title === task.id ? status : task.title;
}
