import {
  type BuildStatus,
  type GateName,
  gateNames,
  liveWaveStatuses,
  type TaskStatus,
  type Verdict,
  type WaveStatus,
} from "./status.ts";

// Decides the next move from the database's state alone. Pure: the same state gives the same move,
// so a repeated, late or lost event can neither skip nor repeat a step. The coordinator applies a
// move and asks again.
// NM1. Nothing is dispatched while a build is cancelling, past its deadline, or stopped by a failed
// task.
// NM2. A wave is joined only when none of its tasks is assigned or running.
// NM3. A gate starts only when every gate before it holds on the same head; a new head starts with
// the first gate.
// NM4. A wave passes only when each gate's latest verdict on its head is passed, absent, not-due or
// off.
// NM5. A build completes only when every task is completed or removed and its last wave is
// delivered.
// NM6. The planner's wave changed no files, so it has no gates. A person reviews the plan instead,
// unless the build does not ask for that. After a rejection a new wave drafts the plan again.

export interface TaskFact {
  readonly key: string;
  readonly position: number;
  readonly agent: string;
  readonly status: TaskStatus;
  readonly dependsOn: readonly string[];
  /** Whether its wave is the current one. */
  readonly inWave: boolean;
  readonly live: boolean;
  /** Whether its attempts keep a processor busy; other attempts mostly wait for a model. */
  readonly computes: boolean;
}

export interface GateFact {
  readonly gate: GateName;
  readonly status: "requested" | "running" | "finished";
  readonly verdict: Verdict | null;
  /** Whether the run failed or was inconclusive in a way that a fixer can fix. */
  readonly fixable: boolean;
  readonly fingerprint: string | null;
}

export interface WaveFact {
  readonly number: number;
  readonly status: WaveStatus;
  readonly joined: boolean;
  readonly delivered: boolean;
  readonly fixRounds: number;
  /** The latest run of each gate on the wave's current head. */
  readonly gates: readonly GateFact[];
  /** Whether a fix or generate attempt is live. */
  readonly headAttemptLive: boolean;
  /** Why the last fix attempt of this wave ended without a new head. */
  readonly fixFailed: string | null;
  /** Fingerprints of earlier failed runs in this wave, on other heads. */
  readonly earlierFingerprints: readonly string[];
  /** A person's decision about the current head. */
  readonly decision: "approved" | "rejected" | null;
  /** Whether a person's comment waits for a fix. */
  readonly hasComments: boolean;
  /** Whether this is the planner's wave. */
  readonly madePlan: boolean;
}

export interface BuildFact {
  readonly status: BuildStatus;
  readonly onTaskFailure: "stop" | "continue";
  readonly approval: "none" | "wave" | "final";
  /** Whether a plan drafted from a brief needs a person's approval. */
  readonly asksForPlan: boolean;
  /** The limit on live attempts, and on those that compute. */
  readonly maxParallelTasks: number;
  readonly maxComputing: number;
  readonly maxFixRounds: number;
  readonly fixerAvailable: boolean;
  readonly deadlinePassed: boolean;
  readonly tasks: readonly TaskFact[];
  /** The latest wave; null before the first. */
  readonly wave: WaveFact | null;
  /** Live attempts of the build, of every kind. */
  readonly liveAttempts: number;
  /** Live attempts that compute. */
  readonly liveComputing: number;
  /** Chooses the tasks of the next wave among the ready (W1, W2). */
  readonly chooseWave: (readyKeys: readonly string[]) => readonly string[];
  /** Orders tasks of a wave for dispatch: longest remaining path first. */
  readonly dispatchOrder: (keys: readonly string[]) => readonly string[];
}

export type Move =
  | { readonly kind: "wait"; readonly for: "attempts" | "gate" | "join" | "delivery" | "person" | "start" | "nothing" }
  | { readonly kind: "skip"; readonly tasks: readonly string[] }
  | { readonly kind: "start-wave"; readonly number: number; readonly tasks: readonly string[] }
  | { readonly kind: "dispatch"; readonly tasks: readonly string[] }
  | { readonly kind: "withdraw"; readonly tasks: readonly string[] }
  | { readonly kind: "settle-wave" }
  | { readonly kind: "ask-gate"; readonly gate: GateName }
  | { readonly kind: "ask-fix"; readonly gate: GateName | "approval" }
  | { readonly kind: "block-wave"; readonly gate: GateName; readonly reason: string }
  | { readonly kind: "ask-approval" }
  | { readonly kind: "plan-again" }
  | { readonly kind: "pass-wave" }
  | { readonly kind: "cancel-wave" }
  | {
      readonly kind: "end-build";
      readonly status: "completed" | "failed" | "cancelled";
      readonly reason: string | null;
    };

const passingVerdicts: ReadonlySet<Verdict> = new Set<Verdict>(["passed", "absent", "not-due", "off"]);
const wait = (reason: Extract<Move, { kind: "wait" }>["for"]): Move => ({ kind: "wait", for: reason });

/** Decides the next move of a build. */
export function nextMove(build: BuildFact): Move {
  switch (build.status) {
    case "queued":
      return wait("start");
    case "waiting":
      return wait("person");
    case "completed":
    case "failed":
    case "cancelled":
      return wait("nothing");
    case "cancelling":
      return cancelMove(build);
    case "running":
      return runningMove(build);
  }
}

function cancelMove(build: BuildFact): Move {
  const { wave } = build;
  if (build.liveAttempts > 0) return wait("attempts");
  if (wave?.gates.some((gate) => gate.status !== "finished")) return wait("gate");
  if (wave?.status === "passed" && !wave.delivered) return wait("delivery");
  if (wave !== null && isLive(wave.status)) return { kind: "cancel-wave" };
  return { kind: "end-build", status: "cancelled", reason: null };
}

const isLive = (status: WaveStatus): boolean => liveWaveStatuses.includes(status);

/** Returns why nothing more may be dispatched (NM1), or null. */
function stopReasonOf(build: BuildFact): string | null {
  if (build.deadlinePassed) return "the plan's time limit is used up";
  const failed = build.tasks.find((task) => task.status === "failed");
  if (failed !== undefined && build.onTaskFailure === "stop") return `task ${failed.key} failed`;
  return null;
}

function runningMove(build: BuildFact): Move {
  const orphans = tasksBehindFailures(build);
  if (orphans.length > 0) return { kind: "skip", tasks: orphans };
  switch (build.wave?.status) {
    case "running":
      return runningWaveMove(build);
    case "joining":
      return wait(build.wave.headAttemptLive ? "attempts" : "join");
    case "gating":
      return gatingMove(build, build.wave);
    case "fixing":
      return wait("attempts");
    case "waiting":
      return wait("person");
    case "blocked":
      return { kind: "end-build", status: "failed", reason: `wave ${build.wave.number} is blocked` };
    case "passed":
      return build.wave.delivered ? betweenWaves(build) : wait("delivery");
    default:
      return betweenWaves(build);
  }
}

/** Returns pending tasks that can never run because a dependency failed or was skipped. */
function tasksBehindFailures(build: BuildFact): string[] {
  if (build.onTaskFailure === "stop") return [];
  const dead = new Set(
    build.tasks.filter((task) => task.status === "failed" || task.status === "skipped").map((task) => task.key),
  );
  if (dead.size === 0) return [];
  return build.tasks
    .filter((task) => task.status === "pending" && task.dependsOn.some((key) => dead.has(key)))
    .map((task) => task.key);
}

function runningWaveMove(build: BuildFact): Move {
  const members = build.tasks.filter((task) => task.inWave);
  const assigned = members.filter((task) => task.status === "assigned" && !task.live).map((task) => task.key);
  if (assigned.length > 0) {
    if (stopReasonOf(build) !== null) return { kind: "withdraw", tasks: assigned };
    const tasks = tasksWithRoom(build, assigned);
    return tasks.length > 0 ? { kind: "dispatch", tasks } : wait("attempts");
  }
  const busy = members.some((task) => task.live || task.status === "running" || task.status === "assigned");
  return busy ? wait("attempts") : { kind: "settle-wave" };
}

/**
 * Picks the tasks to dispatch. A computing task without a slot does not block tasks that wait for a
 * model.
 */
function tasksWithRoom(build: BuildFact, assigned: readonly string[]): string[] {
  const computing = new Set(build.tasks.filter((task) => task.computes).map((task) => task.key));
  let free = build.maxParallelTasks - build.liveAttempts;
  let freeComputing = build.maxComputing - build.liveComputing;
  return build.dispatchOrder(assigned).filter((key) => {
    if (free <= 0 || (computing.has(key) && freeComputing <= 0)) return false;
    free -= 1;
    if (computing.has(key)) freeComputing -= 1;
    return true;
  });
}

function gatingMove(build: BuildFact, wave: WaveFact): Move {
  if (wave.madePlan) return madePlanMove(build, wave);
  for (const gate of gateNames) {
    const run = wave.gates.find((fact) => fact.gate === gate);
    if (run === undefined) return build.deadlinePassed ? outOfTime(gate) : { kind: "ask-gate", gate };
    if (run.status !== "finished" || run.verdict === null) return wait("gate");
    if (!passingVerdicts.has(run.verdict)) return failedGateMove(build, wave, run);
  }
  if (wave.decision === "approved") return { kind: "pass-wave" };
  if (wave.hasComments) return rejectedMove(build, wave);
  if (!needsApproval(build)) return { kind: "pass-wave" };
  return wave.decision === "rejected" ? rejectedMove(build, wave) : { kind: "ask-approval" };
}

function madePlanMove(build: BuildFact, wave: WaveFact): Move {
  if (wave.decision === "rejected") return { kind: "plan-again" };
  return !build.asksForPlan || wave.decision === "approved" ? { kind: "pass-wave" } : { kind: "ask-approval" };
}

/**
 * Handles a wave with comments, or a rejected one that was reopened: sends the reason to the fixer
 * where that can help, otherwise asks the person again.
 */
function rejectedMove(build: BuildFact, wave: WaveFact): Move {
  const mayFix = build.fixerAvailable && wave.fixFailed === null && wave.fixRounds < build.maxFixRounds;
  return mayFix && !build.deadlinePassed ? { kind: "ask-fix", gate: "approval" } : { kind: "ask-approval" };
}

const outOfTime = (gate: GateName): Move => ({
  kind: "block-wave",
  gate,
  reason: "the plan's time limit is used up",
});

function failedGateMove(build: BuildFact, wave: WaveFact, run: GateFact): Move {
  const block = (reason: string): Move => ({ kind: "block-wave", gate: run.gate, reason });
  const verdictText = run.verdict === "failed" ? "failed" : "was inconclusive";
  if (!run.fixable) return block(`the ${run.gate} gate ${verdictText} in a way that no fixer can fix`);
  if (build.deadlinePassed) return outOfTime(run.gate);
  if (wave.fixFailed !== null)
    return block(`the ${run.gate} gate ${verdictText} and the fixer did not help: ${wave.fixFailed}`);
  if (build.maxFixRounds === 0) return block(`the ${run.gate} gate ${verdictText} and fix rounds are switched off`);
  if (!build.fixerAvailable)
    return block(`the ${run.gate} gate ${verdictText} and no runtime is set for the role fixer`);
  if (run.fingerprint !== null && wave.earlierFingerprints.includes(run.fingerprint)) {
    return block(`the ${run.gate} gate ${verdictText} with the same findings as before the fix`);
  }
  if (wave.fixRounds >= build.maxFixRounds) {
    return block(
      `the ${run.gate} gate still ${verdictText === "failed" ? "fails" : "is inconclusive"} after ${wave.fixRounds} fix rounds`,
    );
  }
  return { kind: "ask-fix", gate: run.gate };
}

function needsApproval(build: BuildFact): boolean {
  if (build.approval === "none") return false;
  if (build.approval === "wave") return true;
  // The wave is final when no pending task is left.
  return !build.tasks.some((task) => task.status === "pending");
}

function betweenWaves(build: BuildFact): Move {
  const stopReason = stopReasonOf(build);
  if (stopReason === null) {
    const done = new Set(
      build.tasks.filter((task) => task.status === "completed" || task.status === "removed").map((task) => task.key),
    );
    const ready = build.tasks.filter(
      (task) => task.status === "pending" && task.dependsOn.every((key) => done.has(key)),
    );
    const chosen = build.chooseWave(ready.map((task) => task.key));
    if (chosen.length > 0) return { kind: "start-wave", number: (build.wave?.number ?? 0) + 1, tasks: chosen };
  }
  if (build.tasks.every((task) => task.status === "completed" || task.status === "removed")) {
    return { kind: "end-build", status: "completed", reason: null };
  }
  return { kind: "end-build", status: "failed", reason: stopReason ?? failureOf(build) };
}

function failureOf(build: BuildFact): string {
  const failed = build.tasks.filter((task) => task.status === "failed").map((task) => task.key);
  return failed.length > 0 ? `failed: ${failed.join(", ")}` : "no task is ready and not all are completed";
}
