import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useLiveBuild } from "../api/follow-build.ts";
import { buildQuery, graphQuery } from "../api/queries.ts";
import { GatePanel } from "../gates/gate-panel.tsx";
import { useIsNarrow } from "../parts/screen.ts";
import { Empty, Failure, Loading, Shown } from "../parts/states.tsx";
import { useKeys } from "../shell/keyboard.ts";
import { TaskPanel } from "../task/task-panel.tsx";
import { Board } from "./board.tsx";
import { BuildHead } from "./build-head.tsx";
import { Decision } from "./decision.tsx";
import { Timeline } from "./timeline.tsx";
import { WaveList } from "./wave-list.tsx";

const WaveGraph = lazy(() => import("./wave-graph.tsx").then((module) => ({ default: module.WaveGraph })));
const route = getRouteApi("/builds/$id");
const views = ["graph", "timeline", "board"] as const;

/** One build: its waves, live, and beside them the task or gate that the reader selected. */
export function BuildPage() {
  const { id } = route.useParams();
  const { task, gate } = route.useSearch();
  useLiveBuild(id);
  const build = useQuery(buildQuery(id));
  const graph = useQuery(graphQuery(id));
  return (
    <Shown query={build} what="the build">
      {(state) => (
        <div className="build-page" data-panel={task !== undefined || gate !== undefined || undefined}>
          <div className="build-main">
            <BuildHead build={state} graph={graph.data} />
            <Decision build={state} />
            <ViewTabs />
            {graph.data !== undefined ? (
              <View build={state} graph={graph.data} />
            ) : graph.error === null ? (
              <Loading what="its waves" />
            ) : (
              <Failure error={graph.error} />
            )}
          </div>
          {task !== undefined && <TaskPanel key={task} build={state} task={task} graph={graph.data} />}
          {task === undefined && gate !== undefined && <GatePanel build={state} run={gate} />}
        </div>
      )}
    </Shown>
  );
}

function ViewTabs() {
  const { view = "graph" } = route.useSearch();
  const { id } = route.useParams();
  return (
    <div className="tabs">
      {views.map((name) => (
        <Link
          key={name}
          to="/builds/$id"
          params={{ id }}
          search={(search) => ({ ...search, view: name })}
          className="tab"
          activeProps={{ "aria-current": undefined }}
          {...(name === view ? { "aria-current": "page" as const } : {})}
        >
          {name === "graph" ? "Waves" : name === "timeline" ? "Timeline" : "Board"}
        </Link>
      ))}
      <Link to="/builds/$id/changes" params={{ id }} className="tab">
        Changes
      </Link>
      <Link to="/builds/$id/request" params={{ id }} className="tab">
        Request
      </Link>
      <Link to="/builds/$id/plan" params={{ id }} className="tab">
        Plan
      </Link>
    </div>
  );
}

function View({ build, graph }: { readonly build: ApiType<"Build">; readonly graph: ApiType<"BuildGraph"> }) {
  const { view = "graph", task } = route.useSearch();
  const navigate = route.useNavigate();
  const isNarrow = useIsNarrow();
  const select = (next: string | undefined): void =>
    void navigate({
      search: ({ gate: _, task: __, ...search }) => (next === undefined ? search : { ...search, task: next }),
      replace: true,
    });
  const order = [...graph.tasks].sort((one, other) => one.wave - other.wave).map(({ id }) => id);
  const move = (step: number): void => {
    const at = task === undefined ? (step > 0 ? -1 : order.length) : order.indexOf(task);
    select(order[Math.min(order.length - 1, Math.max(0, at + step))]);
  };
  useKeys({ j: () => move(1), k: () => move(-1), Escape: () => select(undefined) });
  if (graph.waves.length === 0) return <Empty title="No wave has begun." />;
  if (view === "timeline") return <Timeline build={build} graph={graph} />;
  if (view === "board") return <Board build={build} graph={graph} />;
  if (isNarrow) return <WaveList build={build} graph={graph} />;
  return (
    <Suspense fallback={<Loading what="the graph" />}>
      <WaveGraph build={build} graph={graph} />
    </Suspense>
  );
}
