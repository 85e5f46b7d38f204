import { describe, expect, it } from "vitest";
import { type BuildFact, type Move, nextMove } from "../../src/domain/next-move.ts";
import { type GateName, gateNames, type TaskStatus, type Verdict, type WaveStatus } from "../../src/domain/status.ts";

// Explores every state a small build can reach: each move is applied as the coordinator applies it,
// and everything that can happen outside (an agent succeeds or fails, a branch conflicts, a gate
// gives any verdict, a person cancels, time runs out) branches the world. Invariants are checked in
// every state, and every path must come to an end.

interface WorldTask {
  key: string;
  computes: boolean;
  dependsOn: string[];
  status: TaskStatus;
  inWave: boolean;
  live: boolean;
  retries: number;
}
interface WorldWave {
  number: number;
  status: WaveStatus;
  joined: boolean;
  delivered: boolean;
  fixRounds: number;
  fixLive: boolean;
  fixFailed: boolean;
  gates: { gate: GateName; verdict: Verdict | null; fixable: boolean; fingerprint: string | null }[];
  earlier: string[];
  decision: "approved" | "rejected" | null;
}
interface World {
  status: BuildFact["status"];
  tasks: WorldTask[];
  wave: WorldWave | null;
  deadlinePassed: boolean;
}
interface Scenario {
  readonly name: string;
  readonly tasks: { key: string; dependsOn: string[]; computes?: boolean }[];
  readonly onTaskFailure?: "stop" | "continue";
  readonly approval?: "none" | "wave" | "final";
  readonly capacity?: number;
  readonly computing?: number;
  /** The task that makes the plan. */
  readonly planTask?: string;
  readonly asksForPlan?: boolean;
  readonly fixer?: boolean;
}

const holds = new Set<Verdict>(["passed", "absent", "not-due", "off"]);
const ended = new Set(["completed", "failed", "cancelled"]);

function factOf(world: World, scenario: Scenario): BuildFact {
  const { wave } = world;
  return {
    status: world.status,
    onTaskFailure: scenario.onTaskFailure ?? "stop",
    approval: scenario.approval ?? "none",
    asksForPlan: scenario.asksForPlan ?? false,
    maxParallelTasks: scenario.capacity ?? 2,
    maxComputing: scenario.computing ?? scenario.capacity ?? 2,
    maxFixRounds: 1,
    fixerAvailable: scenario.fixer ?? true,
    deadlinePassed: world.deadlinePassed,
    tasks: world.tasks.map((task, position) => ({ ...task, position, agent: "a" })),
    wave:
      wave === null
        ? null
        : {
            ...wave,
            hasComments: false,
            madePlan: world.tasks.some((task) => task.inWave && task.key === scenario.planTask),
            headAttemptLive: wave.fixLive,
            fixFailed: wave.fixFailed ? "it changed nothing" : null,
            earlierFingerprints: wave.earlier,
            gates: wave.gates.map((gate) => ({ ...gate, status: gate.verdict === null ? "running" : "finished" })),
          },
    liveAttempts: world.tasks.filter((task) => task.live).length + (wave?.fixLive === true ? 1 : 0),
    liveComputing: world.tasks.filter((task) => task.live && task.computes).length,
    chooseWave: (keys) => keys,
    dispatchOrder: (keys) => keys,
  };
}

const edit = (world: World, change: (copy: World) => void): World => {
  const tasks = world.tasks.map((task) => ({ ...task }));
  const copy = { ...world, tasks, wave: world.wave === null ? null : copyOf(world.wave) };
  change(copy);
  return copy;
};
// Takes a tenth of the time of structuredClone; nobody changes a list of dependencies.
const copyOf = (wave: WorldWave): WorldWave => ({
  ...wave,
  gates: wave.gates.map((gate) => ({ ...gate })),
  earlier: [...wave.earlier],
});
const taskOf = (world: World, key: string): WorldTask => world.tasks.find((task) => task.key === key)!;

/** The coordinator's decisions for a move. */
function applied(world: World, move: Exclude<Move, { kind: "wait" }>): World {
  return edit(world, (next) => {
    const wave = next.wave as WorldWave;
    switch (move.kind) {
      case "start-wave":
        for (const task of next.tasks) task.inWave = move.tasks.includes(task.key);
        for (const key of move.tasks) taskOf(next, key).status = "assigned";
        next.wave = {
          number: move.number,
          status: "running",
          joined: false,
          delivered: false,
          fixRounds: 0,
          fixLive: false,
          fixFailed: false,
          gates: [],
          earlier: [],
          decision: null,
        };
        break;
      case "dispatch":
        for (const key of move.tasks) Object.assign(taskOf(next, key), { live: true, status: "running" });
        break;
      case "withdraw":
        for (const key of move.tasks) taskOf(next, key).status = "pending";
        break;
      case "skip":
        for (const key of move.tasks) taskOf(next, key).status = "skipped";
        break;
      case "settle-wave":
        wave.status = "joining";
        break;
      case "ask-gate":
        wave.gates = wave.gates.filter((gate) => gate.gate !== move.gate);
        wave.gates.push({ gate: move.gate, verdict: null, fixable: true, fingerprint: null });
        break;
      case "ask-fix":
        Object.assign(wave, { status: "fixing", fixRounds: wave.fixRounds + 1, fixLive: true });
        break;
      case "block-wave":
        wave.status = "blocked";
        break;
      case "ask-approval":
        wave.status = "waiting";
        next.status = "waiting";
        break;
      case "pass-wave":
        wave.status = "passed";
        break;
      case "plan-again":
        wave.status = "failed";
        for (const task of next.tasks) if (task.inWave) Object.assign(task, { status: "pending", retries: 1 });
        break;
      case "cancel-wave":
        wave.status = "cancelled";
        for (const task of next.tasks)
          if (task.inWave && task.status !== "completed" && task.status !== "failed") task.status = "cancelled";
        break;
      case "end-build":
        next.status = move.status;
        break;
    }
  });
}

/** Everything that may happen outside while a build waits. */
function happenings(world: World): World[] {
  const worlds: World[] = [];
  for (const task of world.tasks.filter((candidate) => candidate.live)) {
    const settle = (status: TaskStatus, retries = task.retries) =>
      worlds.push(edit(world, (next) => Object.assign(taskOf(next, task.key), { live: false, status, retries })));
    if (world.status === "cancelling") settle("cancelled");
    settle("joining");
    settle(task.retries > 0 ? "assigned" : "failed", task.retries - 1);
  }
  const { wave } = world;
  if (wave !== null) worlds.push(...waveHappenings(world, wave));
  if (world.status === "running" || world.status === "waiting") {
    worlds.push(
      edit(world, (next) => {
        next.status = "cancelling";
      }),
    );
  }
  if (world.status === "running" && !world.deadlinePassed) {
    worlds.push(
      edit(world, (next) => {
        next.deadlinePassed = true;
      }),
    );
  }
  return worlds;
}

function waveHappenings(world: World, wave: WorldWave): World[] {
  const worlds: World[] = [];
  const change = (patch: (next: World, wave: WorldWave) => void) =>
    worlds.push(edit(world, (next) => patch(next, next.wave as WorldWave)));
  if (wave.status === "joining" && world.status === "running") {
    const members = world.tasks.filter((task) => task.inWave && task.status === "joining");
    // All join, or the last of several conflicts and goes back.
    for (const conflicts of members.length > 1 ? [0, 1] : [0]) {
      change((next, joining) => {
        members.forEach((member, index) => {
          const back = conflicts === 1 && index === members.length - 1;
          taskOf(next, member.key).status = back ? "pending" : "completed";
        });
        Object.assign(joining, members.length === 0 ? { status: "failed" } : { status: "gating", joined: true });
      });
    }
  }
  const open = wave.gates.find((gate) => gate.verdict === null);
  if (open !== undefined) {
    const judge = (verdict: Verdict, fixable: boolean, fingerprint: string | null) =>
      change((_, gating) => {
        Object.assign(gating.gates.find((gate) => gate.gate === open.gate)!, { verdict, fixable, fingerprint });
      });
    judge("passed", false, null);
    judge("absent", false, null);
    judge("failed", true, "same");
    judge("failed", true, `other-${wave.fixRounds}`);
    judge("inconclusive", false, "broken");
  }
  if (wave.fixLive) {
    change((_, fixing) => {
      Object.assign(fixing, {
        fixLive: false,
        status: "gating",
        decision: null,
        gates: [],
        earlier: fixing.gates.flatMap((gate) => gate.fingerprint ?? []),
      });
    });
    change((_, fixing) => Object.assign(fixing, { fixLive: false, status: "gating", fixFailed: true }));
  }
  if (wave.status === "passed" && !wave.delivered)
    change((_, passed) => {
      passed.delivered = true;
    });
  if (world.status === "waiting" && wave.status === "waiting") {
    change((next, waiting) => {
      next.status = "running";
      Object.assign(waiting, { status: "gating", decision: "approved" });
    });
    change((next, waiting) => {
      next.status = "running";
      waiting.status = "blocked";
    });
    // Rejected, then reopened by a retry; this ends, because a rejected plan is made again in a new
    // wave.
    const again = wave.number > 3 ? () => undefined : change;
    again((next, reopened) => {
      next.status = "running";
      const fresh = { gates: [], earlier: [], fixRounds: 0, fixFailed: false };
      Object.assign(reopened, { status: "gating", decision: "rejected", ...fresh });
    });
  }
  return worlds;
}

function checkMove(world: World, fact: BuildFact, move: Move): void {
  if (move.kind === "dispatch") {
    expect(fact.liveAttempts + move.tasks.length, "capacity").toBeLessThanOrEqual(fact.maxParallelTasks);
    const computing = move.tasks.filter((key) => taskOf(world, key).computes).length;
    expect(fact.liveComputing + computing, "processors").toBeLessThanOrEqual(fact.maxComputing);
    expect(world.status, "NM1").toBe("running");
    expect(world.deadlinePassed, "NM1").toBe(false);
    if (fact.onTaskFailure === "stop")
      expect(
        world.tasks.some((task) => task.status === "failed"),
        "NM1",
      ).toBe(false);
  }
  if (move.kind === "start-wave") {
    for (const key of move.tasks) {
      for (const needed of taskOf(world, key).dependsOn) expect(taskOf(world, needed).status, "W1").toBe("completed");
    }
    expect(world.wave === null || world.wave.delivered || world.wave.status === "failed", "one wave at a time").toBe(
      true,
    );
  }
  if (move.kind === "settle-wave") {
    expect(
      world.tasks.some((task) => task.inWave && ["assigned", "running"].includes(task.status)),
      "NM2",
    ).toBe(false);
  }
  if (move.kind === "ask-gate") {
    for (const before of gateNames.slice(0, gateNames.indexOf(move.gate))) {
      expect(holds.has(world.wave!.gates.find((gate) => gate.gate === before)?.verdict as Verdict), "NM3").toBe(true);
    }
  }
  if (move.kind === "plan-again") expect(world.wave, "NM6").toMatchObject({ decision: "rejected", gates: [] });
  if (move.kind === "pass-wave" && fact.wave!.madePlan) {
    expect(world.wave!.gates, "NM6").toEqual([]);
    if (fact.asksForPlan) expect(world.wave!.decision, "NM6").toBe("approved");
  } else if (move.kind === "pass-wave") {
    for (const gate of gateNames) {
      expect(holds.has(world.wave!.gates.find((run) => run.gate === gate)?.verdict as Verdict), "NM4").toBe(true);
    }
    if (fact.approval === "wave") expect(world.wave!.decision, "approval").toBe("approved");
  }
  if (move.kind === "end-build") {
    expect(fact.liveAttempts, "nothing lives after the end").toBe(0);
    if (move.status === "completed") {
      expect(
        world.tasks.every((task) => task.status === "completed"),
        "NM5",
      ).toBe(true);
      expect(world.wave!.delivered, "NM5").toBe(true);
    }
    if (world.wave?.status === "passed") expect(world.wave.delivered, "passed waves are delivered").toBe(true);
  }
}

interface Exploration {
  readonly states: number;
  readonly moves: Set<string>;
  readonly ends: Set<string>;
}

function explore(scenario: Scenario): Exploration {
  const first: World = {
    status: "running",
    wave: null,
    deadlinePassed: false,
    tasks: scenario.tasks.map((task) => ({
      computes: true,
      ...task,
      status: "pending",
      inWave: false,
      live: false,
      retries: 1,
    })),
  };
  const firstKey = JSON.stringify(first);
  const seen = new Set([firstKey]);
  const queue = [{ world: first, key: firstKey }];
  const moves = new Set<string>();
  const ends = new Set<string>();
  const successors = new Map<string, string[]>();
  for (let state = queue.pop(); state !== undefined; state = queue.pop()) {
    const { world, key } = state;
    const fact = factOf(world, scenario);
    const move = nextMove(fact);
    moves.add(move.kind);
    try {
      expect(nextMove(fact)).toEqual(move);
      checkMove(world, fact, move);
    } catch (error) {
      throw new Error(`a wrong move from ${key}`, { cause: error });
    }
    const followers =
      move.kind === "wait" ? (ended.has(world.status) ? [] : happenings(world)) : [applied(world, move)];
    if (ended.has(world.status)) ends.add(world.status);
    else if (followers.length === 0) throw new Error(`no way on from ${key}`);
    const keys = followers.map((follower) => JSON.stringify(follower));
    successors.set(key, keys);
    followers.forEach((follower, index) => {
      if (seen.has(keys[index]!)) return;
      seen.add(keys[index]!);
      queue.push({ world: follower, key: keys[index]! });
    });
  }
  expectEveryStateCanEnd(successors);
  return { states: seen.size, moves, ends };
}

/** Walks back from the ends: a state that none of them can be reached from would hang for ever. */
function expectEveryStateCanEnd(successors: Map<string, string[]>): void {
  const before = new Map<string, string[]>();
  for (const key of successors.keys()) before.set(key, []);
  for (const [state, next] of successors) for (const key of next) before.get(key)!.push(state);
  const alive = [...successors].filter(([, next]) => next.length === 0).map(([state]) => state);
  const reaching = new Set(alive);
  for (let state = alive.pop(); state !== undefined; state = alive.pop()) {
    for (const earlier of before.get(state) ?? []) {
      if (reaching.has(earlier)) continue;
      reaching.add(earlier);
      alive.push(earlier);
    }
  }
  expect([...successors.keys()].filter((state) => !reaching.has(state))).toEqual([]);
}

const chain = [
  { key: "a", dependsOn: [] },
  { key: "b", dependsOn: ["a"] },
];
const fork = [
  { key: "a", dependsOn: [] },
  { key: "b", dependsOn: [] },
  { key: "c", dependsOn: ["a", "b"] },
];

describe("the next move, in every reachable state", () => {
  const scenarios: Scenario[] = [
    { name: "a chain that stops at a failure", tasks: chain },
    { name: "a chain that goes on after a failure", tasks: chain, onTaskFailure: "continue" },
    { name: "a fork with one place", tasks: fork, capacity: 1, onTaskFailure: "continue" },
    { name: "a fork with two places", tasks: fork, capacity: 2 },
    {
      name: "agents beside scripts",
      tasks: fork.map((task, index) => ({ ...task, computes: index % 2 === 0 })),
      capacity: 3,
      computing: 1,
    },
    { name: "a plan without a fixer", tasks: chain, fixer: false },
    { name: "approval of every wave", tasks: chain, approval: "wave" },
    { name: "approval at the end", tasks: chain, approval: "final" },
    { name: "a plan that is made first", tasks: chain, planTask: "a" },
    { name: "a plan that is made first and shown", tasks: chain, planTask: "a", asksForPlan: true },
  ];
  for (const scenario of scenarios) {
    it(`holds NM1 to NM6 and can always end: ${scenario.name}`, () => {
      const { states, moves, ends } = explore(scenario);
      expect(states).toBeGreaterThan(100);
      expect([...ends].sort()).toEqual(["cancelled", "completed", "failed"]);
      for (const kind of [
        "start-wave",
        "dispatch",
        "withdraw",
        "settle-wave",
        "ask-gate",
        "block-wave",
        "pass-wave",
        "cancel-wave",
      ]) {
        expect(moves, `${kind} happens`).toContain(kind);
      }
      expect(moves.has("plan-again")).toBe(scenario.asksForPlan === true);
    });
  }
});
