import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { GateChips } from "./gate-chips.tsx";
import { withTask } from "./selection.ts";
import { TaskCard, taskCards } from "./task-card.tsx";

/** The waves below each other, for narrow screens. */
export function WaveList({
  build,
  graph,
}: {
  readonly build: ApiType<"Build">;
  readonly graph: ApiType<"BuildGraph">;
}) {
  const cards = taskCards(graph, build.tasks);
  return (
    <ol className="stack">
      {graph.waves.map((wave) => (
        <li key={wave.number} className="card wave-block" data-planned={wave.status === "planned" || undefined}>
          <div className="row wrap">
            <h2>Wave {wave.number}</h2>
            <StatusBadge status={wave.status} />
            <span className="grow" />
            <span className="tiny faint">
              {wave.createdAt !== null && <Took from={wave.createdAt} to={wave.endedAt} />}
            </span>
          </div>
          {wave.status === "blocked" && wave.reason !== null && <div className="tiny soft reason">{wave.reason}</div>}
          <GateChips buildId={build.id} wave={wave} />
          <ul className="stack tight">
            {wave.tasks.map((id) => {
              const card = cards.get(id);
              if (card === undefined || card.task.wave !== wave.number) return null;
              return (
                <li key={id}>
                  <TaskLink buildId={build.id} task={id}>
                    <TaskCard {...card} />
                  </TaskLink>
                </li>
              );
            })}
          </ul>
        </li>
      ))}
    </ol>
  );
}

function TaskLink({
  buildId,
  task,
  children,
}: {
  readonly buildId: string;
  readonly task: string;
  readonly children: React.ReactNode;
}) {
  return (
    <Link
      to="/builds/$id"
      params={{ id: buildId }}
      search={withTask(task)}
      className="task-card plain"
      resetScroll={false}
    >
      {children}
    </Link>
  );
}
