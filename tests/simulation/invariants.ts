import type { AttemptRow, BuildRow, GateRunRow, TaskRow, WaveRow } from "../../src/store/port.ts";
import type { MemoryDatabase } from "../support/memory-store.ts";
import type { FakeGit } from "./fake-git.ts";

// Invariants that hold after every commit, checked from the rows alone. The database's own keys and
// checks cover the rest: one running build per project, one live wave per build, one live attempt
// per task, no number used twice.

/** Commits that may undo a settled outcome, because a person asked for it. */
const steering = new Set(["rollback-build", "retry-build", "edit-plan"]);

/** Commits that record the state of a gate run. */
const ofGates = new Set(["finish-gate", "repeat-gate", "ask-gate-agent", "run-added-checks"]);

export interface Watch {
  /** Called before each commit; returns what it breaks, or null. */
  look(commit: string): string | null;
}

/** `mostTasks`: how many tasks may run at once; null: no limit. */
export function createWatch(database: MemoryDatabase, git: FakeGit, mostTasks: number | null): Watch {
  const rows = <Row>(name: "builds" | "waves" | "tasks" | "attempts"): Row[] => [...database.rows[name]()] as Row[];
  let before = snapshot(rows);
  return {
    look(commit) {
      const now = snapshot(rows);
      const broken =
        one(now.builds, (build) => checkBuild(commit, before.builds.get(build.id), build, now)) ??
        checkSlots(now, mostTasks) ??
        one(now.tasks, (task) => checkTask(commit, before.tasks.get(task.id), task, now)) ??
        one(now.attempts, (attempt) => checkAttempt(before.attempts.get(attempt.id), attempt)) ??
        one(now.waves, (wave) => checkWave(commit, before.waves.get(wave.id), wave)) ??
        (ofGates.has(commit) ? checkGates([...database.rows.gateRuns()] as unknown as GateRunRow[]) : null) ??
        one(now.waves, (wave) => (before.waves.has(wave.id) ? null : checkMembers(wave, now, git, database)));
      before = now;
      return broken === null ? null : `${commit}: ${broken}`;
    },
  };
}

interface Snapshot {
  readonly builds: ReadonlyMap<string, BuildRow>;
  readonly waves: ReadonlyMap<string, WaveRow>;
  readonly tasks: ReadonlyMap<string, TaskRow>;
  readonly attempts: ReadonlyMap<string, AttemptRow>;
}

function snapshot(rows: <Row>(name: "builds" | "waves" | "tasks" | "attempts") => Row[]): Snapshot {
  const byId = <Row extends { id: string }>(list: Row[]) => new Map(list.map((row) => [row.id, row]));
  return {
    builds: byId(rows<BuildRow>("builds")),
    waves: byId(rows<WaveRow>("waves")),
    tasks: byId(rows<TaskRow>("tasks")),
    attempts: byId(rows<AttemptRow>("attempts")),
  };
}

function one<Row>(rows: ReadonlyMap<string, Row>, check: (row: Row) => string | null): string | null {
  for (const row of rows.values()) {
    const broken = check(row);
    if (broken !== null) return broken;
  }
  return null;
}

const live = ({ status }: AttemptRow): boolean => status !== "settled";
const over = new Set(["completed", "failed", "cancelled"]);

function checkBuild(commit: string, before: BuildRow | undefined, build: BuildRow, now: Snapshot): string | null {
  const alive = [...now.attempts.values()].filter((attempt) => attempt.buildId === build.id && live(attempt));
  const most = build.plan.limits.maxParallelTasks ?? 1;
  if (alive.length > most) return `${alive.length} attempts live, the plan allows ${most}`;
  if (over.has(build.status) && alive.length > 0) return `build ${build.id} is ${build.status} with a live attempt`;
  if (build.status === "failed" && build.reason === null) return `build ${build.id} failed and does not say of what`;
  if (before === undefined || before.status === build.status) return null;
  if (over.has(before.status) && !steering.has(commit)) return `build ${build.id} was ${before.status}`;
  if (before.status === "cancelling" && !over.has(build.status)) return `a cancelled build became ${build.status}`;
  if (build.status !== "completed") return null;
  const open = [...now.tasks.values()].filter((task) => task.buildId === build.id && task.status !== "completed");
  if (open.length > 0) return `completed with ${open.map((task) => `${task.key} ${task.status}`).join()}`;
  const waves = [...now.waves.values()].filter((wave) => wave.buildId === build.id && wave.status === "passed");
  return waves.every((wave) => wave.deliveredAt !== null) ? null : "completed with a wave that was not delivered";
}

/** TS1: no more tasks run than there are slots. */
function checkSlots({ attempts }: Snapshot, most: number | null): string | null {
  const running = [...attempts.values()].filter((attempt) => attempt.kind === "task" && live(attempt)).length;
  return most === null || running <= most ? null : `${running} tasks run in ${most} slots`;
}

/** W4: one outcome per task; only a person undoes it. */
function checkTask(commit: string, before: TaskRow | undefined, task: TaskRow, now: Snapshot): string | null {
  if (before?.status === "completed" && task.status !== "completed" && !steering.has(commit))
    return `task ${task.key} was completed and became ${task.status}`;
  if (before?.status === "failed" && task.status !== "failed" && !steering.has(commit))
    return `task ${task.key} had failed and became ${task.status}`;
  if (before !== undefined && task.epoch < before.epoch) return `the epoch of ${task.key} went down`;
  if (task.status !== "running") return null;
  const own = [...now.attempts.values()].filter((attempt) => attempt.taskId === task.id && live(attempt));
  return own.length === 1 ? null : `task ${task.key} is running without a live attempt`;
}

function checkAttempt(before: AttemptRow | undefined, attempt: AttemptRow): string | null {
  if (before === undefined || before.outcome === null) return null;
  if (before.outcome !== attempt.outcome) return `attempt ${attempt.id} was ${before.outcome}, now ${attempt.outcome}`;
  return before.commitSha === null || before.commitSha === attempt.commitSha
    ? null
    : `the work of attempt ${attempt.id} was ${before.commitSha}, now ${attempt.commitSha}`;
}

/** W3: a wave that passed with a commit stays passed. */
function checkWave(commit: string, before: WaveRow | undefined, wave: WaveRow): string | null {
  if (before?.status !== "passed" || steering.has(commit)) return null;
  if (wave.status !== "passed" || wave.headSha !== before.headSha) return `wave ${wave.number} had passed`;
  return before.deliveredAt === null || wave.deliveredAt !== null ? null : `wave ${wave.number} was delivered`;
}

/**
 * An agent's additions to a gate cannot make it pass, and it is asked no more often than allowed.
 */
function checkGates(runs: readonly GateRunRow[]): string | null {
  for (const run of runs) {
    const added = run.evidence?.added;
    if (added === undefined) continue;
    const name = `${run.gate} ${run.round} of wave ${run.waveId}`;
    const failed = added.checks.some(({ result }) => result?.outcome === "failed");
    if (added.own.verdict !== "passed" && added.own.verdict !== "absent") return `${name} went on from a failure`;
    const isOver = run.status === "finished" && added.phase === null;
    if (isOver && run.verdict !== (failed ? "failed" : added.own.verdict)) return `${name} is ${run.verdict}`;
    if (isOver && added.checks.some(({ result }) => result === null)) return `${name} ended before its checks`;
    const heard = runs.filter(
      ({ waveId, gate, evidence }) =>
        waveId === run.waveId && gate === run.gate && evidence?.added?.asked && evidence.added.phase !== "asking",
    );
    if (heard.filter(({ sha }) => sha === run.sha).length > 1) return `${name}: its agent was asked twice`;
    const adding = heard.filter(({ evidence }) => evidence!.added!.checks.length > 0);
    if (adding.length > 1) return `${name}: its agent added checks twice`;
  }
  return null;
}

/** W1 and W2 for a wave that was just opened. */
function checkMembers(wave: WaveRow, now: Snapshot, git: FakeGit, database: MemoryDatabase): string | null {
  const held = database.rows.waveTasks().filter((row) => row.waveId === wave.id);
  const members = held.map((row) => now.tasks.get(String(row.taskId))!);
  const all = [...now.tasks.values()].filter((task) => task.buildId === wave.buildId);
  for (const task of members) {
    for (const needed of all.filter((other) => task.definition.dependsOn.includes(other.key))) {
      const joined = needed.commitSha === null || git.isAncestor(needed.commitSha, wave.baseSha);
      if (needed.status !== "completed" || !joined)
        return `${task.key} entered wave ${wave.number} before ${needed.key} was joined`;
    }
  }
  const { tasksPerAgentPerWave } = now.builds.get(wave.buildId)!.plan.limits;
  for (const agent of new Set(members.map((task) => task.agent))) {
    const count = members.filter((task) => task.agent === agent).length;
    if (count > tasksPerAgentPerWave) return `wave ${wave.number} has ${count} tasks of ${agent}`;
  }
  const writes = members.map(writesOf);
  const clash = writes.some((paths, index) =>
    writes.slice(index + 1).some((others) => others.some((path) => paths.includes(path))),
  );
  return clash ? `wave ${wave.number} has tasks that write the same: ${JSON.stringify(writes)}` : null;
}

const writesOf = (task: TaskRow): string[] => [
  ...(task.definition.writes ?? []),
  ...task.conflicts.flatMap((conflict) => conflict.paths),
];
