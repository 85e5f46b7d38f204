import { planTaskKey } from "../../domain/brief.ts";
import { type Move, nextMove } from "../../domain/next-move.ts";
import { activeBuildStatuses, type GateName, openTaskStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { addHeadAttempt, type FixCause } from "../attempt/head-attempt.ts";
import { emitEnd, emitFor, gateRunFacts } from "../build-events.ts";
import { sharedTreePath, taskRef, taskTreePath } from "../names.ts";
import type { Ports } from "../port.ts";
import { type BuildState, factsOf, loadState } from "./facts.ts";

// Applies what follows until something outside the database has to happen first. Runs inside the
// caller's transaction, under the build's lock: the transition and the event that tells of it are
// one commit (W3).

interface AdvanceOptions {
  /**
   * Set by `startWave` alone: the wave may be opened here instead of being asked for by an event.
   */
  readonly openWave?: number;
  /** The build's row, when this transaction has locked it and changed nothing of it since. */
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
    const move = nextMove(factsOf(state, ports));
    if (move.kind === "wait") return;
    const goesOn = await apply(transaction, ports, state, move, options);
    await transaction.builds.update({ id: buildId }, { movedAt: ports.clock.now() });
    if (!goesOn) return;
  }
}

/** True when the next move should be asked for at once. */
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
    case "dispatch":
      await dispatch(transaction, ports, state, move.tasks);
      return false; // what is at work is waited for next
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
    case "settle-wave":
      await settleWave(transaction, state.build, state.wave!);
      return false;
    case "ask-gate":
      await askGate(transaction, ports, state, move.gate);
      return false;
    case "ask-fix":
      await askFix(transaction, ports, state, move.gate);
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
      await passWave(transaction, ports, state.build, state.wave!);
      return false;
    case "cancel-wave":
      await cancelWave(transaction, ports, state);
      return true;
    case "end-build":
      await endBuild(transaction, ports, state, move.status, move.reason);
      return false;
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
    await emitFor(transaction, build, "agent/wave.start", `${build.id}/${move.number}`, build.epoch, {
      waveNumber: move.number,
    });
    return false;
  }
  const wave = await transaction.waves.insert({
    id: ports.ids("wave"),
    buildId: build.id,
    number: move.number,
    status: "running",
    baseSha: build.headSha!,
    createdAt: ports.clock.now(),
  });
  const members = state.tasks.filter((task) => move.tasks.includes(task.key));
  await transaction.waveTasks.insertMany(members.map((task) => ({ waveId: wave.id, taskId: task.id })));
  await updateTasks(transaction, state, move.tasks, { status: "assigned", waveId: wave.id, reason: null });
  return true;
}

async function dispatch(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  keys: readonly string[],
): Promise<void> {
  const { build, wave } = state;
  for (const key of keys) {
    const task = state.tasks.find((candidate) => candidate.key === key)!;
    const number = task.attempts + 1;
    const id = ports.ids("attempt");
    await transaction.tasks.update({ id: task.id }, { attempts: number });
    await transaction.attempts.insert({
      id,
      buildId: build.id,
      waveId: wave!.id,
      taskId: task.id,
      kind: "task",
      role: task.agent,
      number,
      status: "requested",
      baseSha: wave!.baseSha,
      treePath:
        build.plan.isolation === "shared"
          ? sharedTreePath(build.id, wave!.number, wave!.epoch)
          : taskTreePath(build.id, task.key, number),
      ref: taskRef(build.id, task.key, number),
      jobKey: `${id}-0`,
      createdAt: ports.clock.now(),
    });
    await emitFor(transaction, build, `agent/execution.${task.agent}`, id, 0, {
      waveNumber: wave!.number,
      attemptId: id,
      taskId: task.id,
      taskKey: task.key,
      attempt: number,
      fence: 0,
      role: task.agent,
    });
  }
}

async function settleWave(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<void> {
  await transaction.waves.update({ id: wave.id, status: "running" }, { status: "joining" });
  await emitFor(transaction, build, "agent/wave.complete", wave.id, wave.epoch, { waveNumber: wave.number });
}

async function askGate(transaction: StoreTransaction, ports: Ports, state: BuildState, gate: GateName): Promise<void> {
  const { build } = state;
  const wave = state.wave!;
  const earlier = await transaction.gateRuns.list({ waveId: wave.id, gate });
  const id = ports.ids("gate-run");
  const run = await transaction.gateRuns.insert({
    id,
    buildId: build.id,
    waveId: wave.id,
    gate,
    round: earlier.length + 1,
    sha: wave.headSha!,
    epoch: wave.epoch,
    status: "requested",
    jobKey: `${id}-0`,
    createdAt: ports.clock.now(),
  });
  await emitFor(transaction, build, `agent/quality.${gate}`, id, 0, gateRunFacts(run, wave, 0));
}

async function askFix(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  gate: GateName | "approval",
): Promise<void> {
  const { build } = state;
  const wave = state.wave!;
  const cause = await causeOfFix(transaction, state, gate);
  const round = wave.fixRounds + 1;
  await transaction.waves.update({ id: wave.id }, { status: "fixing", fixRounds: round });
  const { id, number } = await addHeadAttempt(
    transaction,
    ports,
    { build, wave, baseSha: wave.headSha! },
    { kind: "fix", role: "fixer", ...cause, paths: [] },
  );
  await emitFor(transaction, build, "agent/quality.fix", id, 0, {
    waveNumber: wave.number,
    attemptId: id,
    taskId: null,
    taskKey: null,
    attempt: number,
    fence: 0,
    gate,
    round,
  });
}

/** The gate run, or the rejection, that a fix answers. */
async function causeOfFix(
  transaction: StoreTransaction,
  state: BuildState,
  gate: GateName | "approval",
): Promise<FixCause> {
  const { id: waveId, headSha } = state.wave!;
  if (gate === "approval") {
    const by = { by: "createdAt", descending: true } as const;
    const rejection = await transaction.approvals.find({ waveId, sha: headSha!, decision: "rejected" }, by);
    return { gateRunId: null, approvalId: rejection!.id };
  }
  const run = state.gateRuns.findLast((candidate) => candidate.gate === gate && candidate.sha === headSha)!;
  return { gateRunId: run.id, approvalId: null };
}

async function blockWave(
  transaction: StoreTransaction,
  ports: Ports,
  state: BuildState,
  reason: string,
): Promise<void> {
  const wave = state.wave!;
  await transaction.waves.update({ id: wave.id }, { status: "blocked", reason, endedAt: ports.clock.now() });
  await emitFor(transaction, state.build, "project/wave.blocked", wave.id, wave.epoch, {
    waveNumber: wave.number,
    reason,
  });
}

async function askApproval(transaction: StoreTransaction, state: BuildState): Promise<void> {
  const wave = state.wave!;
  await transaction.waves.update({ id: wave.id }, { status: "waiting" });
  await transaction.builds.update({ id: state.build.id }, { status: "waiting" });
  await emitFor(transaction, state.build, "project/approval.requested", `${wave.id}/${wave.headSha}`, wave.epoch, {
    waveNumber: wave.number,
  });
}

/**
 * Closes the wave whose plan was rejected: the task that makes it is done again, and all others
 * wait for that one.
 */
async function planAgain(transaction: StoreTransaction, ports: Ports, state: BuildState): Promise<void> {
  const wave = state.wave!;
  const reason = "its plan was rejected";
  await transaction.waves.update({ id: wave.id }, { status: "failed", reason, endedAt: ports.clock.now() });
  const task = await transaction.tasks.get({ buildId: state.build.id, key: planTaskKey });
  await transaction.tasks.update(
    { id: task.id },
    { status: "pending", epoch: task.epoch + 1, retriesUsed: 0, losses: 0, reason, endedAt: null },
  );
}

/**
 * The commit point of a wave: from here on branch, tag, preview and next event are projections of
 * this row (W3).
 */
async function passWave(transaction: StoreTransaction, ports: Ports, build: BuildRow, wave: WaveRow): Promise<void> {
  const now = ports.clock.now();
  await transaction.waves.update({ id: wave.id }, { status: "passed", passedAt: now, endedAt: now, reason: null });
  await transaction.builds.update({ id: build.id }, { headSha: wave.headSha });
  await emitFor(transaction, build, "project/wave.passed", wave.id, wave.epoch, {
    waveNumber: wave.number,
    sha: wave.headSha!,
  });
}

async function cancelWave(transaction: StoreTransaction, ports: Ports, state: BuildState): Promise<void> {
  const wave = state.wave!;
  await transaction.waves.update({ id: wave.id }, { status: "cancelled", endedAt: ports.clock.now() });
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
  // A cancelled build keeps the reason for which its end was asked for.
  const why = status === "cancelled" ? build.reason : reason;
  await transaction.builds.update({ id: build.id }, { status, reason: why, endedAt: now });
  if (status === "cancelled") {
    const open = state.tasks.filter((task) => task.status === "pending").map((task) => task.id);
    await transaction.tasks.update({ id: open }, { status: "cancelled", endedAt: now });
  }
  if (status === "completed") {
    await emitFor(transaction, build, "project/build.completed", build.id, build.epoch, { head: build.headSha! });
  } else await emitEnd(transaction, build, status, reason ?? "");
  await promoteNext(transaction, ports, build.projectId);
}

/** Lets the oldest queued build of a project run when none does (W3). */
export async function promoteNext(transaction: StoreTransaction, ports: Ports, projectId: string): Promise<void> {
  await transaction.lockProject(projectId);
  const busy = await transaction.builds.find({ projectId, status: activeBuildStatuses });
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
