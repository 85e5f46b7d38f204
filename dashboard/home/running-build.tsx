import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useLiveBuild } from "../api/follow-build.ts";
import { buildQuery, graphQuery } from "../api/queries.ts";
import { Progress } from "../build/progress.tsx";
import { TimeLeft } from "../build/time-left.tsx";
import { Money } from "../parts/money.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";

/** A running build, in one card. */
export function RunningBuild({ id }: { readonly id: string }) {
  useLiveBuild(id);
  const build = useQuery(buildQuery(id)).data;
  const graph = useQuery(graphQuery(id)).data;
  if (build === undefined) return <div className="card running" aria-busy="true" />;
  const working = graph?.waves.flatMap(({ work }) => work).filter(({ endedAt }) => endedAt === null) ?? [];
  return (
    <article className="card running">
      <div className="row wrap">
        <Link to="/builds/$id" params={{ id }} className="strong grow clip">
          {build.project}
        </Link>
        <StatusBadge status={build.status} />
      </div>
      <div className="soft small">{build.phase}</div>
      <Progress build={build} />
      <div className="row wrap apart small soft">
        <span>
          <Took from={build.startedAt} to={build.endedAt} /> so far
        </span>
        {graph !== undefined && <TimeLeft graph={graph} />}
        <Money spent={build.spent} />
      </div>
      {working.length > 0 && (
        <ul className="row wrap">
          {working.slice(0, 6).map(({ id: workId, label, lastAction }) => (
            <li key={workId} className="chip" title={lastAction ?? undefined}>
              <span className="dot" data-tone="run" data-moving />
              {label}
            </li>
          ))}
          {working.length > 6 && <li className="faint tiny">and {working.length - 6} more</li>}
        </ul>
      )}
    </article>
  );
}
