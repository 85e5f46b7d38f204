import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { type Move, nextMove } from "../../domain/next-move.ts";
import { planTaskKey } from "../../domain/plan/brief.ts";
import { taskRef } from "../../domain/refs/build-refs.ts";
import { sharedTreePath, taskTreePath } from "../../domain/sandbox/volume-paths.ts";
import { type GateName, openTaskStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { activeBuildOf } from "../../store/queries/builds.ts";
import { rememberBuild } from "../build/remember-build.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";
import { blockWave } from "../wave/block-wave.ts";
import { adoptComments, supersedeComments } from "../wave/comments.ts";
import { type BuildState, buildFacts, loadState, type WaveState } from "./facts.ts";
import { startFixRound } from "./start-fix-round.ts";
import { tasksWithSlots } from "./task-slots.ts";

// Applies moves until something outside the database has to happen first. Runs inside the caller's
// transaction, under the build's lock, so that a transition and its event are one commit (W3).

interface AdvanceOptions {
  /**
   * Set only by `startWave`: this wave may be opened here instead of being requested by an event.
   */
  readonly openWave?: number;
  /** The build's row, if this transaction has locked it and not changed it since. */
  readonly locked?: BuildRow;
}

export async function advance(
  transaction: StoreTransaction,
  ports: Ports,
  buildId: string,
  options: AdvanceOptions = {},
): Promise<void> {
  for (let { locked } = options; ; locked = undefined) {
    const build = locked ?? (await transaction.lockBuild(buildId));
    const state = await loadState(transaction, build);
    const move = nextMove(buildFacts(state, ports));
    if (build.heldBackAt !== null && move.kind !== "dispatch")
      await transaction.builds.update({ id: buildId }, { heldBackAt: null });
    if (move.kind === "wait") return;
    const goesOn = await apply(transaction, ports, state, move, options);
    await transaction.builds.update({ id: buildId }, { movedAt: ports.clock.now() });
    if (!goesOn) return;
  }
}

/** Applies a move. Returns true if the next move should be decided at once. */
async function apply(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  move: Exclude<Move, { kind: "wait" }>,
  options: AdvanceOptions,
): Promise<boolean> {
  switch (move.kind) {
    case "start-wave":
      return startWaveMove(transaction, ports, state, move, options);
    case "withdraw":
      await updateTasks(transaction, state, move.tasks, { status: "pending" });
      return true;
    case "skip":
      await updateTasks(transaction, state, move.tasks, {
        status: "skipped",
        reason: "a task it depends on failed",
        endedAt: ports.clock.now(),
      });
      return true;
    case "end-build":
      await endBuild(transaction, ports, state, move.status, move.reason);
      return false;
    default:
      return applyToWave(transaction, ports, withWave(state), move);
  }
}

/** The state of a build that has a wave. */
function withWave(state: BuildState): WaveState {
  const { wave } = state;
  if (wave === null) throw new WavesmithError("internal", `build ${state.build.id} has no wave yet`);
  return { ...state, wave };
}

async function applyToWave(
  transaction: StoreTransaction,
  ports: Ports,
  state: WaveState,
  move: Exclude<Move, { kind: "wait" | "start-wave" | "withdraw" | "skip" | "end-build" }>,
): Promise<boolean> {
  switch (move.kind) {
    case "dispatch":
      await dispatch(transaction, ports, state, await tasksWithSlots(transaction, ports, state.build, move.tasks));
      return false; // running work has to end first
    case "settle-wave":
      await settleWave(transaction, state.build, state.wave);
      return false;
    case "ask-gate":
      await askGate(transaction, ports, state, move.gate);
      return false;
    case "ask-fix":
      await startFixRound(transaction, ports, state, move.gate);
      return false;
    case "block-wave":
      await blockWave(transaction, ports, state, move.reason);
      return true;
    case "ask-approval":
      await askApproval(transaction, state);
      return false;
    case "plan-again":
      await planAgain(transaction, ports, state);
      return true;
    case "pass-wave":
      await passWave(transaction, ports, state.build, state.wave);
      return false;
    case "cancel-wave":
      await cancelWave(transaction, ports, state);
      return true;
  }
}

async function updateTasks(
  transaction: StoreTransaction,
  state: BuildState,
  keys: readonly string[],
  patch: Partial<TaskRow>,
): Promise<void> {
  const ids = state.tasks.filter((task) => keys.includes(task.key)).map((task) => task.id);
  await transaction.tasks.update({ id: ids }, patch);
}

async function startWaveMove(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  move: Extract<Move, { kind: "start-wave" }>,
  options: AdvanceOptions,
): Promise<boolean> {
  const { build } = state;
  if (options.openWave !== move.number) {
    await eventsOf(transaction, build).startWave(move.number);
    return false;
  }
  const wave = await transaction.waves.insert({
    id: ports.ids("wave"),
    buildId: build.id,
    number: move.number,
    status: "running",
    baseSha: present(build.headSha, "build.headSha"),
    createdAt: ports.clock.now(),
  });
  const members = state.tasks.filter((task) => move.tasks.includes(task.key));
  await transaction.waveTasks.insertMany(members.map((task) => ({ waveId: wave.id, taskId: task.id })));
  await updateTasks(transaction, state, move.tasks, { status: "assigned", waveId: wave.id, reason: null });
  await adoptComments(transaction, wave);
  return true;
}

async function dispatch(
  transaction: StoreTransaction,
  ports: Ports,
  state: WaveState,
  keys: readonly string[],
): Promise<void> {
  const { build, wave } = state;
  for (const key of keys) {
    const task = present(
      state.tasks.find((candidate) => candidate.key === key),
      `task ${key}`,
    );
    const number = task.attempts + 1;
    const id = ports.ids("attempt");
    await transaction.tasks.update({ id: task.id }, { attempts: number });
    const attempt = await transaction.attempts.insert({
      id,
      buildId: build.id,
      waveId: wave.id,
      taskId: task.id,
      kind: "task",
      role: task.agent,
      number,
      status: "requested",
      baseSha: wave.baseSha,
      treePath:
        build.plan.isolation === "shared"
          ? sharedTreePath(build.id, wave.number, wave.epoch)
          : taskTreePath(build.id, task.key, number),
      ref: taskRef(build.id, task.key, number),
      jobKey: `${id}-0`,
      createdAt: ports.clock.now(),
    });
    await eventsOf(transaction, build).executeTask(attempt, wave, task);
  }
}

async function settleWave(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<void> {
  await transaction.waves.update({ id: wave.id, status: "running" }, { status: "joining" });
  await eventsOf(transaction, build).waveComplete(wave);
}

async function askGate(transaction: StoreTransaction, ports: Ports, state: WaveState, gate: GateName): Promise<void> {
  const { build } = state;
  const wave = state.wave;
  const earlier = await transaction.gateRuns.list({ waveId: wave.id, gate });
  const id = ports.ids("gate-run");
  const run = await transaction.gateRuns.insert({
    id,
    buildId: build.id,
    waveId: wave.id,
    gate,
    round: earlier.length + 1,
    sha: present(wave.headSha, "wave.headSha"),
    epoch: wave.epoch,
    status: "requested",
    jobKey: `${id}-0`,
    createdAt: ports.clock.now(),
  });
  await eventsOf(transaction, build).runGate(run, wave);
}

async function askApproval(transaction: StoreTransaction, state: WaveState): Promise<void> {
  const wave = state.wave;
  await transaction.waves.update({ id: wave.id }, { status: "waiting" });
  await transaction.builds.update({ id: state.build.id }, { status: "waiting" });
  await eventsOf(transaction, state.build).requestApproval(wave);
}

/** Closes the wave whose plan was rejected; the planner's task runs again before all others. */
async function planAgain(transaction: StoreTransaction, ports: Ports, state: WaveState): Promise<void> {
  const wave = state.wave;
  const reason = "its plan was rejected";
  await transaction.waves.update({ id: wave.id }, { status: "failed", reason, endedAt: ports.clock.now() });
  const task = await transaction.tasks.get({ buildId: state.build.id, key: planTaskKey });
  await transaction.tasks.update(
    { id: task.id },
    { status: "pending", epoch: task.epoch + 1, retriesUsed: 0, losses: 0, reason, endedAt: null },
  );
}

/**
 * Passes a wave. This is its commit point: branch, tag, preview and next event are projections of
 * this row (W3).
 */
async function passWave(transaction: StoreTransaction, ports: Ports, build: BuildRow, wave: WaveRow): Promise<void> {
  const now = ports.clock.now();
  await transaction.waves.update({ id: wave.id }, { status: "passed", passedAt: now, endedAt: now, reason: null });
  await transaction.builds.update({ id: build.id }, { headSha: wave.headSha });
  await supersedeComments(transaction, ports, wave.id);
  await eventsOf(transaction, build).wavePassed(wave, present(wave.headSha, "wave.headSha"));
}

async function cancelWave(transaction: StoreTransaction, ports: Ports, state: WaveState): Promise<void> {
  const wave = state.wave;
  await transaction.waves.update({ id: wave.id }, { status: "cancelled", endedAt: ports.clock.now() });
  await supersedeComments(transaction, ports, wave.id);
  const members = state.tasks.filter((task) => task.waveId === wave.id);
  const open = members.filter((task) => openTaskStatuses.includes(task.status));
  await transaction.tasks.update({ id: open.map((task) => task.id) }, { status: "cancelled" });
}

async function endBuild(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  status: "completed" | "failed" | "cancelled",
  reason: string | null,
): Promise<void> {
  const { build } = state;
  const now = ports.clock.now();
  // A cancelled build keeps the reason of the cancel.
  const why = status === "cancelled" ? build.reason : reason;
  await transaction.builds.update({ id: build.id }, { status, reason: why, endedAt: now });
  if (status === "cancelled") {
    const open = state.tasks.filter((task) => task.status === "pending").map((task) => task.id);
    await transaction.tasks.update({ id: open }, { status: "cancelled", endedAt: now });
  }
  await rememberBuild(transaction, build, { status, reason: why, at: now });
  const events = eventsOf(transaction, build);
  if (status === "completed") await events.buildCompleted(present(build.headSha, "build.headSha"));
  else await events.buildEnded(status, reason ?? "");
  await promoteNext(transaction, ports, build.projectId);
}

/** Starts the oldest queued build of a project if none is running (W3). */
export async function promoteNext(transaction: StoreTransaction, ports: Ports, projectId: string): Promise<void> {
  await transaction.lockProject(projectId);
  const busy = await activeBuildOf(transaction, projectId);
  if (busy !== null) return;
  const next = await transaction.builds.find({ projectId, status: "queued" }, { by: "position" });
  if (next === null) return;
  const now = ports.clock.now();
  const { wallClockMs } = next.plan.limits.budget;
  await transaction.builds.update(
    { id: next.id, status: "queued" },
    {
      status: "running",
      startedAt: now,
      deadlineAt: wallClockMs === null ? null : new Date(now.getTime() + wallClockMs),
    },
  );
  await advance(transaction, ports, next.id);
}
