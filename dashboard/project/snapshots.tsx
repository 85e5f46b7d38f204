import { useQuery } from "@tanstack/react-query";
import { snapshotsQuery } from "../api/queries.ts";
import { sizeText } from "../parts/sizes.ts";
import { Failure } from "../parts/states.tsx";
import { Ago } from "../parts/times.tsx";

interface SnapshotsProps {
  readonly projectId: string;
  readonly isBusy: boolean;
  onRestore(snapshot: string): void;
}

/** The kept snapshots of a project's volume, newest first. */
export function Snapshots({ projectId, isBusy, onRestore }: SnapshotsProps) {
  const snapshots = useQuery(snapshotsQuery(projectId));
  if (snapshots.error !== null) return <Failure error={snapshots.error} />;
  const kept = (snapshots.data ?? []).filter(({ state }) => state === "kept");
  if (kept.length === 0) return null;
  return (
    <ul className="plain-list scroll-list">
      {kept.map(({ id, createdAt, expiresAt, sizeBytes, reason }) => (
        <li key={id} className="row history-line small">
          <span className="grow">
            <Ago time={createdAt} />
            <span className="tiny faint" title={`kept until ${new Date(expiresAt).toLocaleString()}`}>
              {" · "}
              {sizeText(sizeBytes ?? 0)}
              {reason !== "asked" && ` · ${reason}`}
            </span>
          </span>
          <button
            type="button"
            className="button quiet"
            disabled={isBusy}
            aria-label={`Restore the snapshot of ${new Date(createdAt).toLocaleString()}`}
            onClick={() => onRestore(id)}
          >
            Restore…
          </button>
        </li>
      ))}
    </ul>
  );
}
