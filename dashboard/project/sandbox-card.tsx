import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSandbox } from "../api/actions.ts";
import { sandboxUsageQuery } from "../api/queries.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { sizeText } from "../parts/sizes.ts";
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
  return (
    <section className="card project-card" aria-labelledby="sandbox-head">
      <div className="row">
        <h2 id="sandbox-head" className="grow">
          Sandbox
        </h2>
        {sandbox !== undefined && <StatusBadge status={sandbox.state} />}
      </div>
      {sandbox === undefined ? (
        <p className="small soft">The project's first build creates it.</p>
      ) : (
        <Controls projectId={projectId} sandbox={sandbox} />
      )}
    </section>
  );
}

function Controls({ projectId, sandbox }: { readonly projectId: string; readonly sandbox: ApiType<"Sandbox"> }) {
  const { driver, state, startedAt, reason } = sandbox;
  const act = useSandbox(projectId);
  const [restoring, setRestoring] = useState<string | null>(null);
  const isRunning = state === "running";
  const progress = act.isPending ? "Working…" : act.isSuccess ? said[act.variables.act] : undefined;
  return (
    <>
      <p className="small soft">
        {driver}
        {isRunning && startedAt !== null && (
          <>
            {" · started "}
            <Ago time={startedAt} />
          </>
        )}
        {reason !== null && <> · {reason}</>}
      </p>
      <Usage projectId={projectId} />
      <div className="row wrap">
        <ActionButton action={act} given={{ act: isRunning ? "stop" : "start" }}>
          {isRunning ? "Stop" : "Start"}
        </ActionButton>
        <ActionButton action={act} given={{ act: "snapshot" }}>
          Take a snapshot
        </ActionButton>
      </div>
      {progress !== undefined && (
        <p className="small soft" role="status">
          {progress}
        </p>
      )}
      <Failure error={act.error} />
      <Snapshots projectId={projectId} isBusy={act.isPending} onRestore={setRestoring} />
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
    </>
  );
}

/** What the sandbox uses now. Drivers do not measure everything. */
function Usage({ projectId }: { readonly projectId: string }) {
  const usage = useQuery(sandboxUsageQuery).data?.find((one) => one.projectId === projectId);
  if (usage === undefined) return null;
  const { cpus, memoryBytes, diskBytes, processes } = usage;
  const facts = [
    ...(cpus === null ? [] : [`${cpus.toFixed(1)} CPUs`]),
    ...(memoryBytes === null ? [] : [`${sizeText(memoryBytes)} of memory`]),
    ...(diskBytes === null ? [] : [`${sizeText(diskBytes)} on disk`]),
    ...(processes === null ? [] : [processes === 1 ? "1 process" : `${processes} processes`]),
  ];
  return facts.length === 0 ? null : <p className="small soft num">{facts.join(" · ")}</p>;
}

const said: Readonly<Record<string, string>> = {
  snapshot: "Snapshot taken.",
  restore: "The volume is restored to that snapshot.",
};
