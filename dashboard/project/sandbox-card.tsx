import { useState } from "react";
import { useSandbox } from "../api/actions.ts";
import type { Sandbox } from "../api/types.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";

interface SandboxCardProps {
  readonly projectId: string;
  readonly sandbox: Sandbox | undefined;
}

/** A project's sandbox, and what can be done with it. */
export function SandboxCard({ projectId, sandbox }: SandboxCardProps) {
  const act = useSandbox(projectId);
  const [isRestoring, setRestoring] = useState(false);
  const isRunning = sandbox?.state === "running";
  return (
    <section className="card project-card" aria-labelledby="sandbox-head">
      <div className="row">
        <h2 id="sandbox-head" className="grow">
          Sandbox
        </h2>
        {sandbox !== undefined && <StatusBadge status={sandbox.state} />}
      </div>
      {sandbox === undefined ? (
        <p className="small soft">The project's first build makes it.</p>
      ) : (
        <>
          <p className="small soft">
            {sandbox.driver}
            {isRunning && sandbox.startedAt !== null && (
              <>
                {" · started "}
                <Ago time={sandbox.startedAt} />
              </>
            )}
            {sandbox.reason !== null && <> · {sandbox.reason}</>}
          </p>
          <div className="row wrap">
            <button
              type="button"
              className="button"
              disabled={act.isPending}
              onClick={() => act.mutate(isRunning ? "stop" : "start")}
            >
              {isRunning ? "Stop" : "Start"}
            </button>
            <button type="button" className="button" disabled={act.isPending} onClick={() => act.mutate("snapshot")}>
              Take a snapshot
            </button>
            <button type="button" className="button danger" onClick={() => setRestoring(true)}>
              Restore…
            </button>
          </div>
          {act.isPending && (
            <p className="small soft" role="status">
              Working…
            </p>
          )}
          {act.isSuccess && (act.variables === "snapshot" || act.variables === "restore") && (
            <p className="small soft" role="status">
              {act.variables === "snapshot" ? "The snapshot is taken." : "The volume is as it was at that snapshot."}
            </p>
          )}
          {act.error !== null && <Failure error={act.error} />}
        </>
      )}
      {isRestoring && (
        <Dialog title="Restore the volume?" onClose={() => setRestoring(false)}>
          <p className="small soft">
            The volume becomes what it was at the latest snapshot. Caches and files written since are gone. Work that
            was joined is in git and stays.
          </p>
          <div className="row wrap" style={{ justifyContent: "flex-end" }}>
            <button type="button" className="button" onClick={() => setRestoring(false)}>
              Leave it
            </button>
            <button
              type="button"
              className="button danger"
              onClick={() => {
                act.mutate("restore");
                setRestoring(false);
              }}
            >
              Restore the latest snapshot
            </button>
          </div>
        </Dialog>
      )}
    </section>
  );
}
