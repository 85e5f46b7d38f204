import "@xyflow/react/dist/style.css";
import { getRouteApi } from "@tanstack/react-router";
import {
  Controls,
  type Edge,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
} from "@xyflow/react";
import { type KeyboardEvent, memo, useMemo, useRef } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { Money } from "../parts/money.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { useTheme } from "../shell/theme.ts";
import { GateChips } from "./gate-chips.tsx";
import { withTask } from "./selection.ts";
import { TaskCard, type TaskCardData, taskCards } from "./task-card.tsx";
import { layWaves, type WaveLayout } from "./wave-layout.ts";

type WaveNode = Node<{ buildId: string; wave: ApiType<"GraphWave"> }, "wave">;
type TaskNode = Node<{ card: TaskCardData }, "task">;

/** Above this many, edges are drawn for the selected task alone. */
const mostEdges = 160;
/** Smaller than this, a card cannot be read. */
const leastZoom = 0.7;
const margin = 24;
const route = getRouteApi("/builds/$id");
const ariaTexts = {
  "controls.ariaLabel": "Zoom",
  "node.a11yDescription.default": "Enter opens the task. j and k go to the next and the previous one.",
};
const nodeTypes = { wave: memo(WaveLane), task: memo(TaskBox) };

/** The tasks of a build in one column for each wave, with what they depend on. */
export function WaveGraph({
  build,
  graph,
}: {
  readonly build: ApiType<"Build">;
  readonly graph: ApiType<"BuildGraph">;
}) {
  const { task: selected } = route.useSearch();
  const navigate = route.useNavigate();
  const theme = useTheme();
  const frame = useRef<HTMLDivElement>(null);
  const layout = useMemo(() => layWaves(graph), [graph]);
  const nodes = useMemo(() => nodesOf(build, graph, layout, selected), [build, graph, layout, selected]);
  const edges = useMemo(() => edgesOf(graph, selected), [graph, selected]);
  const select = (task: string): void => void navigate({ search: withTask(task), replace: true });
  // React Flow reports clicks on a node, but not the keys that press it.
  const press = ({ key, target }: KeyboardEvent): void => {
    const isNode = target instanceof HTMLElement && target.matches(".react-flow__node-task");
    if (isNode && (key === "Enter" || key === " ") && target.dataset.id !== undefined) select(target.dataset.id);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the buttons in it
    <div
      ref={frame}
      onKeyDown={press}
      className="graph card"
      style={{ height: `clamp(16rem, ${layout.height + 2 * margin}px, calc(100dvh - 14rem))` }}
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        colorMode={theme}
        onlyRenderVisibleElements
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable
        edgesFocusable={false}
        panOnScroll
        minZoom={0.15}
        maxZoom={1.4}
        fitView
        fitViewOptions={{ padding: 0.03, maxZoom: 1, minZoom: leastZoom }}
        proOptions={{ hideAttribution: true }}
        ariaLabelConfig={ariaTexts}
        onMoveStart={() => frame.current?.setAttribute("data-moving", "")}
        onMoveEnd={() => frame.current?.removeAttribute("data-moving")}
        onInit={(instance) => {
          showCurrentWave(instance, graph, { layout, selected });
        }}
        onNodeClick={(_, node) => {
          if (node.type === "task") select(node.id);
        }}
      >
        <Controls showInteractive={false} orientation="horizontal" position="bottom-right" />
      </ReactFlow>
    </div>
  );
}

/** A graph too wide for the screen begins at the selected task, or at the wave in progress. */
function showCurrentWave(
  instance: ReactFlowInstance<WaveNode | TaskNode>,
  graph: ApiType<"BuildGraph">,
  { layout, selected }: { readonly layout: WaveLayout; readonly selected: string | undefined },
): void {
  const { width = 0 } = document.querySelector(".graph")?.getBoundingClientRect() ?? {};
  if (layout.width * leastZoom <= width) return;
  const working = graph.waves.find(({ status, endedAt }) => status !== "planned" && endedAt === null)?.number ?? 1;
  const wave = graph.tasks.find(({ id }) => id === selected)?.wave ?? working;
  const lane = layout.lanes.get(wave);
  const zoom = 0.8;
  const furthest = Math.max(0, layout.width * zoom - width + 2 * margin);
  const x = Math.min(furthest, Math.max(0, ((lane?.x ?? 0) - 2 * margin) * zoom));
  void instance.setViewport({ x: margin - x, y: margin, zoom });
}

function nodesOf(
  build: ApiType<"Build">,
  graph: ApiType<"BuildGraph">,
  layout: WaveLayout,
  selected: string | undefined,
): (WaveNode | TaskNode)[] {
  const cards = taskCards(graph, build.tasks);
  const lanes = graph.waves.flatMap((wave): WaveNode[] => {
    const lane = layout.lanes.get(wave.number);
    if (lane === undefined) return [];
    return [
      {
        id: `wave ${wave.number}`,
        type: "wave",
        position: { x: lane.x, y: 0 },
        data: { buildId: build.id, wave },
        width: lane.width,
        height: layout.height,
        selectable: false,
        focusable: false,
        zIndex: 0,
      },
    ];
  });
  const boxes = [...cards].flatMap(([id, card]): TaskNode[] => {
    const place = layout.places.get(id);
    if (place === undefined) return [];
    const { width, height } = layout.card;
    const position = { x: place.x, y: place.y };
    return [
      {
        ...{ id, type: "task", position, width, height, zIndex: 2, selected: id === selected },
        ariaRole: "button",
        domAttributes: { "aria-roledescription": "task" },
        data: { card },
      },
    ];
  });
  return [...lanes, ...boxes];
}

function edgesOf({ tasks, criticalPath }: ApiType<"BuildGraph">, selected: string | undefined): Edge[] {
  const steps = new Set(criticalPath.slice(1).map((id, index) => `${criticalPath[index]} ${id}`));
  const all = tasks.flatMap(({ id, dependsOn }) => dependsOn.map((from) => ({ from, to: id })));
  return all
    .filter(({ from, to }) => all.length <= mostEdges || from === selected || to === selected)
    .map(({ from, to }) => {
      const isNear = selected !== undefined && (from === selected || to === selected);
      const isFaint = selected !== undefined && !isNear;
      const kind = steps.has(`${from} ${to}`) ? "edge-critical" : "";
      return {
        id: `${from} ${to}`,
        source: from,
        target: to,
        className: `${kind} ${isNear ? "edge-near" : ""} ${isFaint ? "edge-faint" : ""}`,
        zIndex: isNear ? 3 : 1,
      };
    });
}

function WaveLane({ data: { buildId, wave } }: NodeProps<WaveNode>) {
  return (
    <div className="lane" data-planned={wave.status === "planned" || undefined} title={wave.reason ?? undefined}>
      <div className="row tight">
        <strong className="small">Wave {wave.number}</strong>
        <StatusBadge status={wave.status} />
        <span className="grow" />
        <span className="took tiny faint">
          {wave.createdAt !== null && <Took from={wave.createdAt} to={wave.endedAt} />}
        </span>
      </div>
      <div className="row lane-gates">
        <GateChips buildId={buildId} wave={wave} />
        {wave.spent !== null && wave.spent.calls > 0 && (
          <span className="tiny clip">
            <Money spent={wave.spent} />
          </span>
        )}
      </div>
    </div>
  );
}

function TaskBox({ data: { card }, selected }: NodeProps<TaskNode>) {
  return (
    <div className="task-card" data-status={card.task.status} data-selected={selected || undefined}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <TaskCard {...card} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}
