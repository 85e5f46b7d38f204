import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { planQuery, taskQuery } from "../api/queries.ts";
import { taskParts, withTask } from "../build/selection.ts";
import { asWhole } from "../parts/as-whole.ts";
import { Money } from "../parts/money.tsx";
import { SidePanel } from "../parts/side-panel.tsx";
import { Empty, Loading, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { sentenceCase } from "../parts/words.ts";
import { ActivityView } from "./activity-view.tsx";
import { Attempts } from "./attempts.tsx";
import { TaskChanges } from "./task-changes.tsx";
import { PromptView, TaskOrder } from "./task-order.tsx";
import { TellBox } from "./tell-box.tsx";

const TerminalView = lazy(() => import("./terminal.tsx").then((module) => ({ default: module.TerminalView })));
const route = getRouteApi("/builds/$id");
const parts = [undefined, ...taskParts];

interface TaskPanelProps {
  readonly build: ApiType<"Build">;
  readonly task: string;
}

/** One task: what its agent does, its changes, its instructions and its cost. */
export function TaskPanel({ build, task: id }: TaskPanelProps) {
  const task = useQuery(taskQuery(build.id, id));
  return (
    <Shown query={task} what={id}>
      {(detail) => (
        <SidePanel label={`Task ${id}`} title={<TaskTitle detail={detail} />}>
          <TaskFacts build={build} detail={detail} />
          <TaskTabs detail={detail} />
          <TaskPart build={build} detail={detail} />
        </SidePanel>
      )}
    </Shown>
  );
}

interface TaskProps {
  readonly build: ApiType<"Build">;
  readonly detail: ApiType<"TaskDetail">;
}

function TaskTitle({ detail: { id, title, status } }: { readonly detail: ApiType<"TaskDetail"> }) {
  return (
    <>
      <div className="row wrap">
        <h2>{id}</h2>
        <StatusBadge status={status} />
      </div>
      {title !== id && <div className="small soft">{title}</div>}
    </>
  );
}

function TaskFacts({ build, detail }: TaskProps) {
  const { id, agent, status, reason, summary, eachAttempt } = detail;
  const last = eachAttempt.at(-1);
  const state = build.tasks.find((task) => task.id === id);
  return (
    <>
      <div className="side-facts row wrap small soft">
        <span className="chip">{agent}</span>
        {last !== undefined && <Took from={last.startedAt} to={last.endedAt} />}
        {state !== undefined && <Money spent={state.spent} />}
        <Dependencies build={build} detail={detail} />
      </div>
      {reason !== null && (
        <div className="notice side-notice" data-tone={status === "failed" ? "bad" : "idle"}>
          {reason}
        </div>
      )}
      {summary !== null && summary !== "" && <p className="small side-notice summary">{summary}</p>}
    </>
  );
}

function TaskTabs({ detail: { id, eachAttempt } }: { readonly detail: ApiType<"TaskDetail"> }) {
  const params = route.useParams();
  return (
    <nav className="tabs" aria-label={`About ${id}`}>
      {parts.map((part) => (
        <Link
          key={part ?? "activity"}
          to="/builds/$id"
          params={params}
          search={({ part: _, ...search }) => (part === undefined ? search : { ...search, part })}
          className="tab"
          activeOptions={asWhole}
          replace
          resetScroll={false}
        >
          {sentenceCase(part ?? "activity")}
          {part === "attempts" && eachAttempt.length > 1 && ` ${eachAttempt.length}`}
        </Link>
      ))}
    </nav>
  );
}

function TaskPart({ build, detail }: TaskProps) {
  const { part, attempt: chosen } = route.useSearch();
  const { id, eachAttempt } = detail;
  const last = eachAttempt.at(-1);
  const attempt = chosen ?? last?.number ?? null;
  if (part === "changes") return <TaskChanges build={build} detail={detail} />;
  if (part === "instructions") return <Told build={build} task={id} attempt={attempt} />;
  if (part === "attempts") return <Attempts build={build} detail={detail} />;
  if (part === "terminal") return <Terminal build={build} detail={detail} />;
  if (attempt === null) {
    const waitsFor = build.tasks.find((task) => task.id === id)?.waitsFor;
    return <Empty title="It has not started yet.">{waitsFor != null && `It is waiting for ${waitsFor}.`}</Empty>;
  }
  return (
    <>
      <ActivityView buildId={build.id} task={id} attempt={attempt} />
      {last?.endedAt === null && <TellBox buildId={build.id} task={id} />}
    </>
  );
}

function Terminal({ build, detail: { id, eachAttempt } }: TaskProps) {
  if (eachAttempt.every(({ commit }) => commit === null))
    return <Empty title="Nothing committed yet.">A shell opens in a checkout of what a task committed.</Empty>;
  return (
    <Suspense fallback={<Loading what="the terminal" />}>
      <TerminalView buildId={build.id} task={id} />
    </Suspense>
  );
}

function Dependencies({ build, detail }: { readonly build: ApiType<"Build">; readonly detail: ApiType<"TaskDetail"> }) {
  if (detail.dependsOn.length === 0) return null;
  return (
    <span className="row tight wrap">
      after
      {detail.dependsOn.map((id) => (
        <Link key={id} to="/builds/$id" params={{ id: build.id }} search={withTask(id)} className="chip">
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
        if (own === undefined) return <Empty title="This task is no longer in the plan." />;
        return (
          <TaskOrder task={own}>
            {attempt !== null && own.run === null && <PromptView buildId={build.id} task={task} attempt={attempt} />}
          </TaskOrder>
        );
      }}
    </Shown>
  );
}
