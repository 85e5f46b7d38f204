import type { AttemptView, BuildView, GateView, TaskView, WaveView } from "../../src/coordinator/build/build-view.ts";
import { nothingSpent, type Spending } from "../../src/domain/models.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import type { Input } from "../../src/store/port.ts";

// Views of a small build, made by hand; anything a test does not mention has a plain value.

export const moment = (seconds: number): Date => new Date(Date.UTC(2026, 0, 1, 12, 0, seconds));

export const plan = parsePlanValue(
  {
    name: "shop",
    tasks: [
      { id: "db", agent: "database", run: "make db" },
      { id: "api", agent: "backend", dependsOn: ["db"], run: "make api", acceptance: [{ check: "test -f api" }] },
      { id: "ui", agent: "frontend", dependsOn: ["db"], run: "make ui" },
      { id: "docs", agent: "default", dependsOn: ["api", "ui"], run: "make docs" },
    ],
  },
  { baseDir: null, env: {} },
).plan!;

export function attempt(given: Partial<Input<AttemptView>>): AttemptView {
  const { taskKey = "db", number = 1 } = given;
  return {
    id: `att-${taskKey}-${number}`,
    kind: "task",
    role: "database",
    number,
    status: "settled",
    outcome: "succeeded",
    reason: null,
    outputTail: "",
    ref: `refs/heads/wavesmith/bld_1/task/${taskKey}/${number}`,
    commitSha: null,
    jobKey: `job-${taskKey}-${number}`,
    createdAt: moment(0),
    startedAt: moment(1),
    endedAt: moment(3),
    taskKey,
    inSetup: false,
    lastAction: null,
    changed: ["a.txt"],
    ...given,
  } as AttemptView;
}

export function gate(given: Partial<Input<GateView>>): GateView {
  const { gate: name = "testing", round = 1 } = given;
  return {
    id: `gate-${name}-${round}`,
    gate: name,
    round,
    sha: "a".repeat(40),
    status: "finished",
    verdict: "passed",
    reason: null,
    evidence: {
      sha: "a".repeat(40),
      command: "npm test",
      exitCode: 0,
      signal: null,
      timedOut: false,
      durationMs: 3200,
      outputTail: "ok",
      tests: { total: 12, passed: 12, failed: 0, skipped: 0, source: "tap" },
      notes: [],
    },
    jobKey: null,
    createdAt: moment(4),
    endedAt: moment(6),
    findings: [],
    ...given,
  } as GateView;
}

export function wave(given: Partial<Input<WaveView>>): WaveView {
  const { number = 1 } = given;
  return {
    id: `wave-${number}`,
    number,
    status: "running",
    baseSha: "b".repeat(40),
    headSha: null,
    fixRounds: 0,
    epoch: 0,
    reason: null,
    createdAt: moment(0),
    endedAt: null,
    taskKeys: ["db"],
    attempts: [],
    gates: [],
    ...given,
  } as WaveView;
}

export interface BuildGiven {
  readonly build?: Partial<BuildView["build"]>;
  readonly tasks?: Readonly<Record<string, Partial<TaskView>>>;
  readonly waves?: readonly WaveView[];
  readonly preview?: BuildView["preview"];
  readonly questions?: BuildView["questions"];
  readonly messages?: BuildView["messages"];
  readonly comments?: BuildView["comments"];
  readonly waitsForSandbox?: string;
  readonly sandboxTrouble?: string;
  readonly sandboxWall?: BuildView["sandboxWall"];
  readonly spending?: Readonly<Record<string, Partial<Spending>>>;
}

export function view(given: BuildGiven = {}): BuildView {
  return {
    build: {
      id: "bld_1",
      projectId: "proj_1",
      status: "running",
      plan,
      brief: null,
      metadata: null,
      sandboxDriver: "local",
      network: "open",
      headSha: "b".repeat(40),
      epoch: 0,
      reason: null,
      createdAt: moment(0),
      startedAt: moment(0),
      endedAt: null,
      ...given.build,
    } as BuildView["build"],
    project: "shop",
    tasks: plan.tasks.map((definition) => ({
      key: definition.key,
      agent: definition.agent,
      definition,
      status: "pending",
      attempts: 0,
      retriesUsed: 0,
      conflicts: [],
      reason: null,
      endedAt: null,
      waveNumber: null,
      ...given.tasks?.[definition.key],
    })),
    waves: given.waves ?? [],
    preview: given.preview ?? null,
    questions: given.questions ?? [],
    messages: given.messages ?? [],
    comments: given.comments ?? [],
    waitsForSandbox: given.waitsForSandbox ?? null,
    sandboxTrouble: given.sandboxTrouble ?? null,
    sandboxWall: given.sandboxWall ?? null,
    spending: new Map(Object.entries(given.spending ?? {}).map(([id, spent]) => [id, { ...nothingSpent, ...spent }])),
  };
}
