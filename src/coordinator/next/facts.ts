import { getKnown } from "../../domain/known.ts";
import type { BuildFact, GateFact, TaskFact, WaveFact } from "../../domain/next-move.ts";
import { literalGlob } from "../../domain/paths/write-globs.ts";
import { makesPlan } from "../../domain/plan/brief.ts";
import { agentSpecFor, type Plan } from "../../domain/plan/plan.ts";
import { createTaskGraph, type TaskGraph } from "../../domain/plan/task-graph.ts";
import { chooseWave, isAlone } from "../../domain/plan/wave-planner.ts";
import type { AttemptRow, BuildRow, GateRunRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { liveAttemptsOf } from "../../store/queries/attempts.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import type { Ports } from "../port.ts";
import { hasOpenComments } from "../wave/comments.ts";
import { attemptComputes, parallelismOf, type Room } from "./parallelism.ts";

// F1. A wave's tasks settle one by one, and each time the state is read. So for a running wave we
// read only the tasks in play, which must include everything nextMove needs about it.

const taskColumns = ["id", "key", "position", "agent", "status", "waveId", "attempts", "conflicts"] as const;

/** A task's row without its definition, which is in the plan. */
type TaskState = Pick<TaskRow, (typeof taskColumns)[number]>;

/** A build's current state in the database. */
export interface BuildState {
  readonly build: BuildRow;
  /** For a running wave only the tasks in play (F1), otherwise all tasks. */
  readonly tasks: readonly TaskState[];
  /** The latest wave. */
  readonly wave: WaveRow | null;
  readonly liveAttempts: readonly AttemptRow[];
  /** The wave's fixes, oldest first. */
  readonly fixes: readonly AttemptRow[];
  /** The wave's gate runs in its current epoch, oldest first. */
  readonly gateRuns: readonly GateRunRow[];
  /** Whether a person's comment on the wave waits for a fix. */
  readonly hasComments: boolean;
}

/** The state of a build that has a wave under way. */
export type WaveState = BuildState & { readonly wave: WaveRow };

export async function loadState(transaction: StoreTransaction, build: BuildRow): Promise<BuildState> {
  const buildId = build.id;
  const wave = await latestWaveOf(transaction, buildId);
  const liveAttempts = await liveAttemptsOf(transaction, buildId);
  const state = { build, wave, liveAttempts, fixes: [], gateRuns: [], hasComments: false };
  const inPlay = await tasksInPlay(transaction, state);
  if (inPlay !== null) return { ...state, tasks: inPlay };
  const tasks = await transaction.tasks.pick({ buildId }, taskColumns, { by: "position" });
  if (wave === null) return { ...state, tasks };
  const fixes = await transaction.attempts.list({ waveId: wave.id, kind: "fix" }, { by: "createdAt" });
  const gateRuns = await transaction.gateRuns.list({ waveId: wave.id, epoch: wave.epoch }, { by: "round" });
  const hasComments = wave.status === "gating" && (await hasOpenComments(transaction, wave.id));
  return { ...state, tasks, fixes, gateRuns, hasComments };
}

/**
 * Returns the tasks in play; null when other tasks matter too, such as those behind a failed one.
 */
async function tasksInPlay(
  transaction: StoreTransaction,
  { build, wave, liveAttempts }: Pick<BuildState, "build" | "wave" | "liveAttempts">,
): Promise<TaskState[] | null> {
  if (build.status !== "running" || wave?.status !== "running") return null;
  const status = ["assigned", "running", "failed", "skipped"] as const;
  const tasks = await transaction.tasks.pick({ buildId: build.id, status }, taskColumns, { by: "position" });
  if (tasks.some((task) => task.status === "failed" || task.status === "skipped")) return null;
  const ids = new Set(tasks.map((task) => task.id));
  return liveAttempts.every(({ taskId }) => taskId === null || ids.has(taskId)) ? tasks : null;
}

/**
 * Lookups for a plan's tasks, cached with the plan, because all reads of a build share its plan.
 */
interface PlanTasks {
  readonly byKey: ReadonlyMap<string, Plan["tasks"][number]>;
  readonly graph: () => TaskGraph;
}

const planTasks = new WeakMap<Plan, PlanTasks>();

function tasksOf(plan: Plan): PlanTasks {
  const known = planTasks.get(plan);
  if (known !== undefined) return known;
  let graph: TaskGraph | null = null;
  const made: PlanTasks = {
    byKey: new Map(plan.tasks.map((task) => [task.key, task])),
    graph: () => {
      graph ??= createTaskGraph(plan.tasks);
      return graph;
    },
  };
  planTasks.set(plan, made);
  return made;
}

/** Returns the paths a task may write: declared ones and earlier conflicts (W2); null: unknown. */
function effectiveWrites(task: TaskState, definition: Plan["tasks"][number]): string[] | null {
  const learned = task.conflicts.flatMap((conflict) => conflict.paths.map(literalGlob));
  const declared = definition.writes;
  if (declared === null && learned.length === 0) return null;
  return [...(declared ?? []), ...learned];
}

function taskFact(state: BuildState, task: TaskState): TaskFact {
  const definition = tasksOf(state.build.plan).byKey.get(task.key);
  return {
    key: task.key,
    position: task.position,
    agent: task.agent,
    status: task.status,
    // A task that was removed from the plan depends on nothing.
    dependsOn: definition?.dependsOn ?? [],
    inWave: state.wave !== null && task.waveId === state.wave.id,
    live: state.liveAttempts.some((attempt) => attempt.taskId === task.id),
    computes: attemptComputes(state.build.plan, task.agent, definition?.run ?? null),
  };
}

/** Returns the live attempts that keep a processor busy. */
function computingAttempts({ build, tasks, liveAttempts }: BuildState): AttemptRow[] {
  const keys = new Map(tasks.map((task) => [task.id, task.key]));
  return liveAttempts.filter(({ taskId, role }) => {
    const key = taskId === null ? undefined : keys.get(taskId);
    const run = key === undefined ? null : (tasksOf(build.plan).byKey.get(key)?.run ?? null);
    return attemptComputes(build.plan, role, run);
  });
}

function gateFacts(state: BuildState, wave: WaveRow): GateFact[] {
  const latest = new Map<string, GateFact>();
  for (const run of state.gateRuns) {
    if (run.sha !== wave.headSha) continue;
    const { gate, status, verdict, fixable, fingerprint } = run;
    latest.set(gate, { gate, status, verdict, fixable, fingerprint });
  }
  return [...latest.values()];
}

function waveFact(state: BuildState, wave: WaveRow): WaveFact {
  const lastFix = state.fixes.findLast((attempt) => attempt.outcome !== null);
  const fixedNothing =
    lastFix !== undefined && lastFix.baseSha === wave.headSha && lastFix.number > 0 && fixIsOfThisEpoch(state, lastFix);
  return {
    number: wave.number,
    status: wave.status,
    joined: wave.headSha !== null,
    delivered: wave.deliveredAt !== null,
    fixRounds: wave.fixRounds,
    gates: gateFacts(state, wave),
    headAttemptLive: state.liveAttempts.some((attempt) => attempt.kind !== "task"),
    fixFailed: fixedNothing ? (lastFix.reason ?? "it changed nothing") : null,
    earlierFingerprints: state.gateRuns
      .filter((run) => run.sha !== wave.headSha && run.fingerprint !== null && run.verdict !== "passed")
      .map((run) => run.fingerprint as string),
    decision: decisionOn(wave),
    hasComments: state.hasComments,
    madePlan: state.tasks.some((task) => task.waveId === wave.id && makesPlan(state.build, task.key)),
  };
}

function decisionOn(wave: WaveRow): WaveFact["decision"] {
  if (wave.headSha === null) return null;
  if (wave.approvedSha === wave.headSha) return "approved";
  return wave.rejectedSha === wave.headSha ? "rejected" : null;
}

function fixIsOfThisEpoch(state: BuildState, fix: AttemptRow): boolean {
  return state.wave !== null && fix.epoch === state.wave.epoch;
}

type FactPorts = Pick<Ports, "clock" | "processors" | "memoryBytes" | "sandboxPolicy" | "driverTraits">;

/** Returns the room a build's attempts share; a container has its own memory limit. */
const roomFor = ({ sandboxDriver }: BuildRow, ports: FactPorts): Room => {
  const { processors, memoryBytes, sandboxPolicy, driverTraits } = ports;
  const isLimited = driverTraits(sandboxDriver).machine === "engine";
  return { processors, memoryBytes: isLimited ? Math.min(memoryBytes, sandboxPolicy.limits.memoryBytes) : memoryBytes };
};

/** Converts the state to the facts that `nextMove` reads. */
export function buildFacts(state: BuildState, ports: FactPorts): BuildFact {
  const { build, tasks, wave } = state;
  const { plan } = build;
  const remainingPath = (key: string): number => tasksOf(plan).graph().remainingPath(key);
  const byKey = new Map(tasks.map((task) => [task.key, task]));
  return {
    status: build.status,
    onTaskFailure: plan.onTaskFailure,
    approval: plan.approval,
    asksForPlan: build.brief?.asks ?? false,
    ...parallelismOf(plan, roomFor(build, ports)),
    maxFixRounds: plan.gates.maxFixRounds,
    fixerAvailable: agentSpecFor(plan, "fixer") !== null,
    deadlinePassed: build.deadlineAt !== null && build.deadlineAt <= ports.clock.now(),
    tasks: tasks.map((task) => taskFact(state, task)),
    wave: wave === null ? null : waveFact(state, wave),
    liveAttempts: state.liveAttempts.length,
    liveComputing: computingAttempts(state).length,
    chooseWave: (keys) =>
      chooseWave({
        ready: keys.map((key) => {
          const task = getKnown(byKey, key);
          const definition = getKnown(tasksOf(plan).byKey, key);
          return {
            key,
            agent: task.agent,
            position: task.position,
            effectiveWrites: effectiveWrites(task, definition),
            alone: isAlone(plan.isolation, definition.writes),
          };
        }),
        remainingPath,
        tasksPerAgentPerWave: plan.limits.tasksPerAgentPerWave,
      }),
    dispatchOrder: (keys) =>
      [...keys].sort(
        (a, b) => remainingPath(b) - remainingPath(a) || getKnown(byKey, a).position - getKnown(byKey, b).position,
      ),
  };
}
