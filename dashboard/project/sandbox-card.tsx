import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSandbox } from "../api/actions.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { Failure } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";
import { RestoreDialog } from "./restore-dialog.tsx";
import { Snapshots } from "./snapshots.tsx";

interface SandboxCardProps {
  readonly projectId: string;
  readonly sandbox: ApiType<"Sandbox"> | undefined;
}

/** A project's sandbox, its snapshots, and what can be done with them. */
export function SandboxCard({ projectId, sandbox }: SandboxCardProps) {
  const act = useSandbox(projectId);
  const [restoring, setRestoring] = useState<string | null>(null);
  const isRunning = sandbox?.state === "running";
  const done = act.isSuccess ? said[act.variables.act] : undefined;
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
            <ActionButton action={act} given={{ act: isRunning ? "stop" : "start" }}>
              {isRunning ? "Stop" : "Start"}
            </ActionButton>
            <ActionButton action={act} given={{ act: "snapshot" }}>
              Take a snapshot
            </ActionButton>
          </div>
          {act.isPending && (
            <p className="small soft" role="status">
              Working…
            </p>
          )}
          {done !== undefined && (
            <p className="small soft" role="status">
              {done}
            </p>
          )}
          <Failure error={act.error} />
          <Snapshots projectId={projectId} isBusy={act.isPending} onRestore={setRestoring} />
        </>
      )}
      {restoring !== null && (
        <RestoreDialog
          projectId={projectId}
          snapshot={restoring}
          onClose={() => setRestoring(null)}
          onRestore={() => {
            act.mutate({ act: "restore", snapshot: restoring });
            setRestoring(null);
          }}
        />
      )}
    </section>
  );
}

const said: Readonly<Record<string, string>> = {
  snapshot: "The snapshot is taken.",
  restore: "The volume is as it was at that snapshot.",
};
