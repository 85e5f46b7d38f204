import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { Findings } from "../gates/findings.tsx";
import { Empty } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";

interface ChecksProps {
  readonly buildId: string;
  readonly runs: readonly ApiType<"GateRun">[];
}

/** The last run of each gate of each wave, with its evidence in a line and its findings. */
export function Checks({ buildId, runs }: ChecksProps) {
  const last = [...new Map(runs.map((run) => [`${run.wave} ${run.gate}`, run])).values()];
  if (last.length === 0) return <Empty title="No gates have run yet." />;
  return (
    <ul className="card list">
      {last.map((run) => (
        <li key={run.id} className="list-item">
          <div className="stack grow">
            <div className="row wrap">
              <StatusBadge status={run.verdict ?? run.status} />
              <Link to="/builds/$id" params={{ id: buildId }} search={{ gate: run.id }} className="strong">
                {run.gate}
              </Link>
              <span className="small soft">wave {run.wave}</span>
              <span className="grow" />
              {run.evidence?.tests != null && (
                <span className="small soft num">
                  {run.evidence.tests.passed} of {run.evidence.tests.total} tests passed
                </span>
              )}
              <span className="small faint">
                <Took from={run.createdAt} to={run.endedAt} />
              </span>
            </div>
            {run.evidence?.command != null && <div className="small soft clip mono">{run.evidence.command}</div>}
            {run.verdict !== "passed" && run.reason !== null && <div className="small soft">{run.reason}</div>}
            <Findings findings={run.findings} buildId={buildId} wave={run.wave} />
          </div>
        </li>
      ))}
    </ul>
  );
}
