import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSteering } from "../api/actions.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Money, usdText } from "../parts/money.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Failure } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { isOpen } from "../parts/tones.ts";
import { ConfirmDialog } from "./confirm-dialog.tsx";
import { Progress } from "./progress.tsx";
import { RollbackDialog } from "./rollback-dialog.tsx";
import { withGate, withTask } from "./selection.ts";
import { TimeLeft } from "./time-left.tsx";

interface BuildHeadProps {
  readonly build: ApiType<"Build">;
  readonly graph: ApiType<"BuildGraph"> | undefined;
}

/** The top of a build's page: its name, its progress and its buttons. */
export function BuildHead({ build, graph }: BuildHeadProps) {
  const { project, projectId, status, brief } = build;
  return (
    <div className="stack tight">
      <PageHead
        page={project}
        title={
          <Link to="/projects/$id" params={{ id: projectId }} className="plain">
            {project}
          </Link>
        }
      >
        <StatusBadge status={status} />
        <Actions build={build} graph={graph} />
      </PageHead>
      <Facts build={build} graph={graph} />
      {brief !== undefined && <p className="brief soft small">“{brief}”</p>}
      <Notices build={build} graph={graph} />
      <Progress build={build} />
    </div>
  );
}

function Facts({ build, graph }: BuildHeadProps) {
  const { status, phase, startedAt, endedAt, spent, budget, preview, id } = build;
  return (
    <div className="row wrap apart small soft">
      <span role="status" className={phase === status ? "hidden" : "phase"}>
        {phase}
      </span>
      <Took from={startedAt} to={endedAt} />
      {status === "running" && graph !== undefined && <TimeLeft graph={graph} />}
      <Money spent={spent} />
      {budget.usd !== null && <span>budget {usdText(budget.usd)}</span>}
      <span className="mono tiny faint">{id}</span>
      {preview?.url != null && (
        <a href={preview.url} target="_blank" rel="noreferrer">
          Open the preview <Icon name="out" size={13} />
        </a>
      )}
      {build.head !== null && <CopyButton text={`git fetch ${build.repository} main`} label="Copy git fetch" />}
    </div>
  );
}

/** Why it ended, or why it does not go on. */
function Notices({ build: { id, status, reason, waitsForSandbox, sandboxTrouble }, graph }: BuildHeadProps) {
  return (
    <>
      {reason !== null && status !== "waiting" && (
        <div className="notice" data-tone={status === "failed" ? "bad" : "idle"}>
          {reason}
          {status === "failed" && graph !== undefined && (
            <Blockers buildId={id} wave={graph.waves.findLast(isStarted)} />
          )}
        </div>
      )}
      {waitsForSandbox !== null && (
        <div className="notice" data-tone="wait">
          {waitsForSandbox.reason} <span className="soft">{waitsForSandbox.remedy}</span>
        </div>
      )}
      {sandboxTrouble !== null && (
        <div className="notice" data-tone="wait">
          {sandboxTrouble}
        </div>
      )}
    </>
  );
}

const mostBlockers = 5;
const isStarted = ({ status }: ApiType<"GraphWave">): boolean => status !== "planned";

/** The gate that blocks a wave, or the attempts that failed in it. */
function Blockers({ buildId, wave }: { readonly buildId: string; readonly wave: ApiType<"GraphWave"> | undefined }) {
  const why = wave?.reason ?? "";
  if (why.startsWith("rejected: ")) return <>: {why}</>;
  const last = wave?.work.findLast(({ kind }) => kind === "gate");
  if (last?.outcome === "failed" || last?.outcome === "inconclusive") {
    return (
      <>
        {": "}
        <Link to="/builds/$id" params={{ id: buildId }} search={withGate(last.id)}>
          see why {last.label} {last.outcome === "failed" ? "failed" : "has no verdict"}
        </Link>
      </>
    );
  }
  const failed = (wave?.work ?? []).flatMap(({ task, outcome }) =>
    task !== null && outcome !== null && outcome !== "succeeded" ? [task] : [],
  );
  return [...new Set(failed)].slice(0, mostBlockers).map((task) => (
    <span key={task}>
      {" · "}
      <Link to="/builds/$id" params={{ id: buildId }} search={withTask(task)}>
        see {task}
      </Link>
    </span>
  ));
}

type Asked = "cancel" | "rollback" | null;

function Actions({ build, graph }: BuildHeadProps) {
  const [asked, setAsked] = useState<Asked>(null);
  const steering = useSteering(build.id);
  const { status } = build;
  const passed = graph?.waves.filter((wave) => wave.status === "passed") ?? [];
  const close = (): void => setAsked(null);
  return (
    <div className="row wrap">
      {(status === "failed" || status === "cancelled") && (
        <button type="button" className="button primary" onClick={() => steering.mutate({ act: "retry" })}>
          Retry
        </button>
      )}
      {(status === "failed" || status === "cancelled") && (
        <Link to="/builds/$id/plan" params={{ id: build.id }} className="button">
          Edit the plan
        </Link>
      )}
      {passed.length > 0 && status !== "running" && status !== "queued" && status !== "cancelling" && (
        <button type="button" className="button" onClick={() => setAsked("rollback")}>
          Roll back…
        </button>
      )}
      {isOpen(status) && status !== "cancelling" && (
        <button type="button" className="button danger" onClick={() => setAsked("cancel")}>
          Cancel…
        </button>
      )}
      <Failure error={steering.error} />
      {asked === "rollback" && graph !== undefined && (
        <RollbackDialog buildId={build.id} waves={graph.waves} onClose={close} />
      )}
      {asked === "cancel" && (
        <ConfirmDialog
          title="Cancel this build?"
          yes="Cancel the build"
          no="Keep it running"
          steering={steering}
          what={{ act: "cancel" }}
          onClose={close}
        >
          Its agents are stopped. What they have done so far is kept, waves that passed stay on main, and a retry
          continues from there.
        </ConfirmDialog>
      )}
    </div>
  );
}
