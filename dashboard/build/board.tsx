import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { withTask } from "./selection.ts";
import { TaskCard, type TaskCardData, taskCards } from "./task-card.tsx";

const columns = [
  { name: "Waiting", statuses: ["pending"] },
  { name: "At work", statuses: ["assigned", "running", "joining"] },
  { name: "Not completed", statuses: ["failed", "cancelled", "skipped"] },
  { name: "Completed", statuses: ["completed"] },
] as const;

/** The tasks of a build by status. */
export function Board({ build, graph }: { readonly build: ApiType<"Build">; readonly graph: ApiType<"BuildGraph"> }) {
  const cards = [...taskCards(graph, build.tasks).values()];
  const statusOf = ({ state, task }: TaskCardData): string => state?.status ?? task.status;
  return (
    <div className="board">
      {columns.map(({ name, statuses }) => {
        const own = cards.filter((card) => (statuses as readonly string[]).includes(statusOf(card)));
        return (
          <section key={name} className="board-column" aria-label={name} data-empty={own.length === 0 || undefined}>
            <h2 className="row">
              {name} <span className="faint num">{own.length}</span>
            </h2>
            <ul className="board-cards">
              {own.slice(0, 200).map((card) => (
                <li key={card.task.id}>
                  <Link
                    to="/builds/$id"
                    params={{ id: build.id }}
                    search={withTask(card.task.id)}
                    className="task-card plain"
                    resetScroll={false}
                  >
                    <TaskCard {...card} />
                  </Link>
                </li>
              ))}
              {own.length === 0 && <li className="faint small">None.</li>}
              {own.length > 200 && <li className="faint small">and {own.length - 200} more</li>}
            </ul>
          </section>
        );
      })}
    </div>
  );
}
