import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { graphQuery, restorePointsQuery } from "../api/queries.ts";
import { RollbackDialog } from "../build/rollback-dialog.tsx";
import { Failure } from "../parts/states.tsx";
import { Ago } from "../parts/times.tsx";

type Point = ApiType<"RestorePoint">;

interface RestorePointsProps {
  readonly projectId: string;
  /** Whether a build is at work, which a rollback would disturb. */
  readonly isBusy: boolean;
}

/** Where a project's main can go back to, newest first. */
export function RestorePoints({ projectId, isBusy }: RestorePointsProps) {
  const { data: points = [], error } = useQuery(restorePointsQuery(projectId));
  const [chosen, setChosen] = useState<Point | null>(null);
  if (error === null && points.length < 2) return null;
  return (
    <section className="stack" aria-labelledby="restore-points">
      <h2 id="restore-points">Restore points</h2>
      <Failure error={error} />
      <ul className="card list scroll-list">
        {points.map((point) => (
          <PointLine key={point.commit} point={point} isBusy={isBusy} onChoose={() => setChosen(point)} />
        ))}
      </ul>
      {isBusy && <p className="small soft">Main cannot go back while a build of this project is at work.</p>}
      {chosen !== null && <Rollback point={chosen} onClose={() => setChosen(null)} />}
    </section>
  );
}

interface PointLineProps {
  readonly point: Point;
  readonly isBusy: boolean;
  readonly onChoose: () => void;
}

function PointLine({ point: { buildId, wave, commit, isMain, createdAt }, isBusy, onChoose }: PointLineProps) {
  return (
    <li className="list-item restore-point small">
      <span className="grow">
        {wave === 0 ? "The beginning" : `The end of wave ${wave}`} of build{" "}
        <Link to="/builds/$id" params={{ id: buildId }} className="mono">
          {buildId}
        </Link>
      </span>
      <span className="mono tiny faint">{commit.slice(0, 12)}</span>
      <span className="faint">
        <Ago time={createdAt} />
      </span>
      {isMain ? (
        <span className="restore-here soft">main is here</span>
      ) : (
        <button
          type="button"
          className="button"
          disabled={isBusy}
          aria-label={wave === 0 ? "Roll back to the beginning" : `Roll back to wave ${wave}`}
          onClick={onChoose}
        >
          Roll back…
        </button>
      )}
    </li>
  );
}

function Rollback({ point: { buildId, wave }, onClose }: { readonly point: Point; readonly onClose: () => void }) {
  const graph = useQuery(graphQuery(buildId)).data;
  if (graph === undefined) return null;
  return <RollbackDialog buildId={buildId} waves={graph.waves} point={wave} onClose={onClose} />;
}
