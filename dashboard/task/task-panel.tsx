import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { planQuery, taskQuery } from "../api/queries.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Money } from "../parts/money.tsx";
import { SidePanel } from "../parts/side-panel.tsx";
import { Empty, Loading, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { ActivityView } from "./activity-view.tsx";
import { TaskChanges } from "./task-changes.tsx";
import { PromptView, TaskOrder } from "./task-order.tsx";
import { TellBox } from "./tell-box.tsx";

const TerminalView = lazy(() => import("./terminal.tsx").then((module) => ({ default: module.TerminalView })));
const tabs = ["Activity", "Changes", "Instructions", "Attempts", "Terminal"] as const;
type Tab = (typeof tabs)[number];

interface TaskPanelProps {
  readonly build: ApiType<"Build">;
  readonly task: string;
  readonly graph: ApiType<"BuildGraph"> | undefined;
}

/** One task: what its agent does, its changes, its instructions and its cost. */
export function TaskPanel({ build, task: id, graph }: TaskPanelProps) {
  const task = useQuery(taskQuery(build.id, id));
  return (
    <Shown query={task} what={id}>
      {(detail) => <Task build={build} detail={detail} graph={graph} />}
    </Shown>
  );
}

interface TaskProps {
  readonly build: ApiType<"Build">;
  readonly detail: ApiType<"TaskDetail">;
  readonly graph: ApiType<"BuildGraph"> | undefined;
}

function Task({ build, detail, graph }: TaskProps) {
  const [tab, setTab] = useState<Tab>("Activity");
  const last = detail.eachAttempt.at(-1);
  const [chosen, setChosen] = useState<number | null>(null);
  const attempt = chosen ?? last?.number ?? null;
  const state = build.tasks.find(({ id }) => id === detail.id);
  return (
    <SidePanel
      label={`Task ${detail.id}`}
      title={
        <>
          <div className="row wrap">
            <h2>{detail.id}</h2>
            <StatusBadge status={detail.status} />
          </div>
          {detail.title !== detail.id && <div className="small soft">{detail.title}</div>}
        </>
      }
    >
      <div className="side-facts row wrap small soft">
        <span className="chip">{detail.agent}</span>
        {last !== undefined && <Took from={last.startedAt} to={last.endedAt} />}
        {state !== undefined && <Money spent={state.spent} />}
        <Dependencies build={build} detail={detail} />
      </div>
      {detail.reason !== null && (
        <div className="notice side-notice" data-tone={detail.status === "failed" ? "bad" : "idle"}>
          {detail.reason}
        </div>
      )}
      {detail.summary !== null && detail.summary !== "" && (
        <p className="small side-notice summary">{detail.summary}</p>
      )}
      <div className="tabs" role="tablist" aria-label={`About ${detail.id}`}>
        {tabs.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            className="tab"
            aria-selected={name === tab}
            onClick={() => setTab(name)}
          >
            {name}
            {name === "Attempts" && detail.eachAttempt.length > 1 && ` ${detail.eachAttempt.length}`}
          </button>
        ))}
      </div>
      {tab === "Activity" &&
        (attempt === null ? (
          <Empty title="It has not begun.">{state?.waitsFor != null && `It waits for ${state.waitsFor}.`}</Empty>
        ) : (
          <ActivityView buildId={build.id} task={detail.id} attempt={attempt} />
        ))}
      {tab === "Activity" && last !== undefined && last.endedAt === null && (
        <TellBox buildId={build.id} task={detail.id} />
      )}
      {tab === "Changes" && <TaskChanges build={build} detail={detail} />}
      {tab === "Instructions" && <Told build={build} task={detail.id} attempt={attempt} />}
      {tab === "Terminal" &&
        (detail.eachAttempt.some(({ commit }) => commit !== null) ? (
          <Suspense fallback={<Loading what="the terminal" />}>
            <TerminalView buildId={build.id} task={detail.id} />
          </Suspense>
        ) : (
          <Empty title="It has committed nothing yet.">A shell opens in a checkout of what a task committed.</Empty>
        ))}
      {tab === "Attempts" && (
        <Attempts
          build={build}
          detail={detail}
          graph={graph}
          onShow={(number) => {
            setChosen(number);
            setTab("Activity");
          }}
        />
      )}
    </SidePanel>
  );
}

function Dependencies({ build, detail }: { readonly build: ApiType<"Build">; readonly detail: ApiType<"TaskDetail"> }) {
  if (detail.dependsOn.length === 0) return null;
  return (
    <span className="row wrap" style={{ gap: "0.3rem" }}>
      after
      {detail.dependsOn.map((id) => (
        <Link
          key={id}
          to="/builds/$id"
          params={{ id: build.id }}
          search={(search) => ({ ...search, task: id })}
          className="chip"
        >
          {id}
        </Link>
      ))}
    </span>
  );
}

interface ToldProps {
  readonly build: ApiType<"Build">;
  readonly task: string;
  /** Null before the first attempt. */
  readonly attempt: number | null;
}

function Told({ build, task, attempt }: ToldProps) {
  const plan = useQuery(planQuery(build.id));
  return (
    <Shown query={plan} what="the plan">
      {({ tasks }) => {
        const own = tasks.find(({ key }) => key === task);
        if (own === undefined) return <Empty title="The plan does not have this task now." />;
        return (
          <TaskOrder task={own}>
            {attempt !== null && own.run === null && <PromptView buildId={build.id} task={task} attempt={attempt} />}
          </TaskOrder>
        );
      }}
    </Shown>
  );
}

/** The repository is on the server's machine: an editor of another one cannot reach it. */
const isSameMachine = /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);

interface OpenElsewhereProps {
  readonly repository: string;
  readonly branch: string;
}

/** Opens a clone of a branch in VS Code, or copies the command that makes one. */
function OpenElsewhere({ repository, branch }: OpenElsewhereProps) {
  const asked = new URLSearchParams({ url: `file://${repository}`, ref: branch });
  return (
    <>
      {isSameMachine && (
        <a className="small" href={`vscode://vscode.git/clone?${asked}`}>
          Open in VS Code <Icon name="out" size={13} />
        </a>
      )}
      <CopyButton text={`git clone --branch ${branch} ${repository}`} label="Copy git clone" />
    </>
  );
}

interface AttemptsProps extends TaskProps {
  readonly onShow: (attempt: number) => void;
}

function Attempts({ build, detail, onShow }: AttemptsProps): ReactNode {
  if (detail.eachAttempt.length === 0) return <Empty title="It has not begun." />;
  return (
    <div className="side-body stack">
      <ul className="stack" style={{ gap: "0.5rem" }}>
        {[...detail.eachAttempt].reverse().map(({ number, status, outcome, reason, commit, startedAt, endedAt }) => (
          <li key={number} className="finding">
            <div className="row wrap">
              <strong className="small">Attempt {number}</strong>
              <StatusBadge status={outcome ?? status} />
              <span className="tiny faint">
                <Took from={startedAt} to={endedAt} />
              </span>
              <span className="grow" />
              <button type="button" className="button quiet" onClick={() => onShow(number)}>
                What it did
              </button>
            </div>
            {reason !== null && <div className="small soft">{reason}</div>}
            {commit !== null && (
              <div className="row wrap">
                <span className="mono tiny faint">{commit.slice(0, 12)}</span>
                <OpenElsewhere
                  repository={build.repository}
                  branch={`wavesmith/${build.id}/task/${detail.id}/${number}`}
                />
              </div>
            )}
          </li>
        ))}
      </ul>
      <CopyButton
        text={`wavesmith shell ${build.id} --task ${detail.id}`}
        label="Copy the command that opens a shell in its tree"
      />
    </div>
  );
}
