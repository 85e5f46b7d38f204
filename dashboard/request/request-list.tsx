import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { Empty } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";
import { buildRequestState, requestWords } from "./request-state.ts";

const most = 10;

/** A project's requests: the builds that have work for main, newest first. */
export function RequestList({ rows }: { readonly rows: readonly ApiType<"BuildRow">[] }) {
  const requests = rows.filter(({ status, head }) => head !== null || status === "waiting").slice(0, most);
  if (requests.length === 0) return <Empty title="No build has work for main yet." />;
  return (
    <ul className="card list">
      {requests.map(({ id, status, head, createdAt }) => {
        const { label, status: tone } = requestWords[buildRequestState(status)];
        return (
          <li key={id} className="list-item row wrap">
            <StatusBadge status={tone} label={label} />
            <Link to="/builds/$id/request" params={{ id }} className="mono small grow">
              {id}
            </Link>
            {head !== null && <span className="mono tiny faint">{head.slice(0, 12)}</span>}
            <span className="small faint">
              <Ago time={createdAt} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}
