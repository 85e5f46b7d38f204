import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { graphQuery } from "../api/queries.ts";
import { GatePanel } from "../gates/gate-panel.tsx";
import { asWhole } from "../parts/as-whole.ts";
import { useIsNarrow } from "../parts/screen.ts";
import { Empty, Loading, Shown } from "../parts/states.tsx";
import { sentenceCase } from "../parts/words.ts";
import { useKeys } from "../shell/keyboard.ts";
import { TaskPanel } from "../task/task-panel.tsx";
import { Board } from "./board.tsx";
import { BuildHead } from "./build-head.tsx";
import { BuildShown } from "./build-shown.tsx";
import { Decision } from "./decision.tsx";
import { views, withNothing, withTask } from "./selection.ts";
import { Timeline } from "./timeline.tsx";
import { WaveList } from "./wave-list.tsx";

const WaveGraph = lazy(() => import("./wave-graph.tsx").then((module) => ({ default: module.WaveGraph })));
const route = getRouteApi("/builds/$id");
const shownViews = [undefined, ...views];

/** One build: its waves, live, and beside them the task or gate that the reader selected. */
export function BuildPage() {
  const { id } = route.useParams();
  const { task, gate } = route.useSearch();
  const graph = useQuery(graphQuery(id));
  return (
    <BuildShown id={id}>
      {(build) => (
        <div className="build-page" data-panel={task !== undefined || gate !== undefined || undefined}>
          <div className="build-main">
            <BuildHead build={build} graph={graph.data} />
            <Decision build={build} />
            <ViewTabs />
            <Shown query={graph} what="its waves">
              {(shown) => <View build={build} graph={shown} />}
            </Shown>
          </div>
          {task !== undefined && <TaskPanel key={task} build={build} task={task} />}
          {task === undefined && gate !== undefined && <GatePanel build={build} run={gate} />}
        </div>
      )}
    </BuildShown>
  );
}

function ViewTabs() {
  const { id } = route.useParams();
  return (
    <nav className="tabs" aria-label="Views of the build">
      {shownViews.map((name) => (
        <Link
          key={name ?? "graph"}
          to="/builds/$id"
          params={{ id }}
          search={({ view: _, ...search }) => (name === undefined ? search : { ...search, view: name })}
          className="tab"
          activeOptions={asWhole}
        >
          {sentenceCase(name ?? "waves")}
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
    </nav>
  );
}

function View({ build, graph }: { readonly build: ApiType<"Build">; readonly graph: ApiType<"BuildGraph"> }) {
  const { view, task } = route.useSearch();
  const navigate = route.useNavigate();
  const isNarrow = useIsNarrow();
  const select = (next: string | undefined): void =>
    void navigate({
      search: next === undefined ? withNothing : withTask(next),
      replace: true,
    });
  const order = [...graph.tasks].sort((one, other) => one.wave - other.wave).map(({ id }) => id);
  const move = (step: number): void => {
    const at = task === undefined ? (step > 0 ? -1 : order.length) : order.indexOf(task);
    select(order[Math.min(order.length - 1, Math.max(0, at + step))]);
  };
  useKeys({ j: () => move(1), k: () => move(-1), Escape: () => select(undefined) });
  if (graph.waves.length === 0) return <Empty title="No wave has started yet." />;
  if (view === "timeline") return <Timeline build={build} graph={graph} />;
  if (view === "board") return <Board build={build} graph={graph} />;
  if (isNarrow) return <WaveList build={build} graph={graph} />;
  return (
    <Suspense fallback={<Loading what="the graph" />}>
      <WaveGraph build={build} graph={graph} />
    </Suspense>
  );
}
