import { useQuery } from "@tanstack/react-query";
import { buildsQuery, snapshotsQuery } from "../api/queries.ts";
import { Dialog } from "../parts/dialog.tsx";
import { isOpen } from "../parts/tones.ts";

interface RestoreDialogProps {
  readonly projectId: string;
  readonly snapshot: string;
  readonly onClose: () => void;
  readonly onRestore: () => void;
}

/** Explains what restoring a snapshot does, before doing it. */
export function RestoreDialog({ projectId, snapshot: id, onClose, onRestore }: RestoreDialogProps) {
  const snapshot = useQuery(snapshotsQuery(projectId)).data?.find((one) => one.id === id);
  const builds = useQuery(buildsQuery(projectId)).data ?? [];
  const open = builds.find(({ status }) => isOpen(status));
  const time = snapshot === undefined ? "that time" : new Date(snapshot.createdAt).toLocaleString();
  const since = builds.filter(({ createdAt }) => snapshot !== undefined && createdAt > snapshot.createdAt).length;
  return (
    <Dialog title="Restore the volume?" onClose={onClose}>
      <div className="small soft stack tight">
        <p>
          The volume becomes what it was on <strong>{time}</strong>: caches, databases and other files of the sandbox.
          Anything written there since then is lost
          {since > 0 && `, also by the ${since === 1 ? "build" : `${since} builds`} since`}. Take a snapshot first to
          keep it.
        </p>
        <p>Passed waves are in git and stay. The sandbox restarts, and so does its preview.</p>
        {open !== undefined && <p>Build {open.id} has not ended, so this will be refused until it has.</p>}
      </div>
      <div className="buttons">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" className="button danger" onClick={onRestore}>
          Restore this snapshot
        </button>
      </div>
    </Dialog>
  );
}
