import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { StatusBadge } from "../parts/status.tsx";
import { Ago, Took } from "../parts/times.tsx";

/** Builds, one to a line. */
export function BuildTable({ rows }: { readonly rows: readonly ApiType<"BuildRow">[] }) {
  return (
    <ul className="card list">
      {rows.map(({ id, project, status, reason, tasks, createdAt, startedAt, endedAt }) => (
        <li key={id} className="list-item build-line">
          <StatusBadge status={status} />
          <div className="grow">
            <Link to="/builds/$id" params={{ id }} className="strong">
              {project}
            </Link>{" "}
            <span className="mono tiny faint">{id}</span>
            {reason !== null && <div className="small soft clamp">{reason}</div>}
          </div>
          <span className="small soft num">
            {tasks} {tasks === 1 ? "task" : "tasks"}
          </span>
          <span className="small soft">
            <Took from={startedAt} to={endedAt} />
          </span>
          <span className="small faint">
            <Ago time={createdAt} />
          </span>
        </li>
      ))}
    </ul>
  );
}
