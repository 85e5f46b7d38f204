import type { PlanTask } from "../../src/domain/plan/plan.ts";
import type { Random } from "../support/random-plan.ts";
import type { FakeJob, FakeTree, FakeVolume } from "./fake-sandbox.ts";
import { endJob } from "./fake-sandbox.ts";

// The plans of a seed, and the effects of their tasks, gates and fixers on a tree when the
// simulation ends their jobs.

export interface Behaviour {
  /** The content of its own file, and of its line in a shared one. */
  readonly text: string;
  readonly fate: "succeeds" | "fails-once" | "fails";
  readonly changesNothing: boolean;
  /** A file to which several tasks add a line. */
  readonly shared: string | null;
  /** Leaves a fault that fails the testing gate. */
  readonly leavesBug: boolean;
  readonly generates: boolean;
}

export interface SimulatedPlan {
  /** As a person writes it. */
  readonly plan: Record<string, unknown>;
  readonly behaviours: Map<string, Behaviour>;
  /** Whether it may fail although nobody cancels it and nothing dies. */
  readonly mayFail: boolean;
}

export const generated = "gen/all";
const roles = ["backend", "frontend", "default"];

export function simulatedPlan(random: Random, name: string): SimulatedPlan {
  const size = random.between(1, 7);
  const unlucky = random.chance(0.25);
  const buggy = random.chance(0.3);
  const fixer = random.chance(0.8);
  const withGenerated = random.chance(0.3);
  const shared = random.chance(0.3);
  const behaviours = new Map<string, Behaviour>();
  const tasks = Array.from({ length: size }, (_, index) => {
    const key = `t${index}`;
    const earlier = Array.from({ length: index }, (_, before) => `t${before}`);
    const dependsOn = random.chance(0.4) ? [] : random.some(earlier, random.between(1, 2));
    const behaviour: Behaviour = {
      text: `${name} ${key}`,
      fate: random.chance(0.15) ? "fails-once" : unlucky && random.chance(0.2) ? "fails" : "succeeds",
      changesNothing: random.chance(0.08),
      shared: random.chance(0.4) ? `shared/${random.between(1, 2)}` : null,
      leavesBug: buggy && random.chance(0.4),
      generates: withGenerated && random.chance(0.6),
    };
    behaviours.set(key, behaviour);
    const own = [`own/${key}`, `bug/${key}`, `junk/${key}`];
    // In a shared tree, generated files need not be declared anyway.
    const writes = [...own, ...(shared ? [] : [generated]), ...(behaviour.shared === null ? [] : [behaviour.shared])];
    const declares = random.chance(shared ? 0.8 : 0.4) ? { writes } : {};
    const retries = behaviour.fate === "fails-once" ? random.between(1, 2) : random.between(0, 1);
    const changes = behaviour.changesNothing ? "optional" : "required";
    return { id: key, agent: random.pick(roles), dependsOn, retries, changes, ...declares, run: "true" };
  });
  const fates = [...behaviours.values()];
  const off = { testing: false, critic: false, integration: false };
  // Draws no random number of its own, so that the other worlds stay the same.
  const tester = size === 2 || size === 5 ? { agent: "tester" } : {};
  const gates = buggy || random.chance(0.5) ? { ...off, testing: { command: "test", ...tester } } : off;
  const integration = random.chance(0.3) ? { command: "integrate", ...tester } : false;
  const command = { runtime: "command", command: "true" };
  const critic = random.chance(0.25);
  const isChecked = "agent" in tester;
  const agents = {
    ...(fixer ? { fixer: command } : {}),
    ...(critic ? { critic: command } : {}),
    ...(isChecked ? { tester: command } : {}),
  };
  return {
    plan: {
      name,
      limits: {
        tasksPerAgentPerWave: random.between(1, 3),
        maxParallelTasks: random.between(1, 3),
        ...(random.chance(0.15) ? { budget: { wallClock: "10m" } } : {}),
      },
      onTaskFailure: random.chance(0.5) ? "stop" : "continue",
      approval: random.pick(["none", "none", "none", "final", "wave"]),
      ...(shared ? { isolation: "shared" } : {}),
      ...(fixer || critic || isChecked ? { agents } : {}),
      ...(withGenerated ? { generated: [{ path: generated, by: "true" }] } : {}),
      gates: { ...gates, integration, ...(critic ? { critic: {} } : {}), maxFixRounds: random.between(1, 3) },
      tasks,
    },
    behaviours,
    mayFail: isChecked || fates.some(({ fate, leavesBug }) => fate === "fails" || leavesBug),
  };
}

/** A task that only the edited plan has. */
export function addedTask(tasks: readonly PlanTask[]): { task: PlanTask; behaviour: Behaviour } {
  const last = tasks.at(-1)!;
  const key = `t${tasks.length}`;
  const task = {
    ...last,
    key,
    position: tasks.length,
    dependsOn: [last.key],
    writes: null,
    changes: "required",
  } as const;
  const own = { fate: "succeeds", changesNothing: false, shared: null, leavesBug: false, generates: false } as const;
  return { task: { ...task, dependsOn: [last.key] }, behaviour: { ...own, text: `added ${key}` } };
}

/** Returns the purpose of a job, from its labels and the rows. */
export type Work =
  | { readonly kind: "task"; readonly key: string; readonly attempt: number; readonly behaviour: Behaviour }
  | { readonly kind: "fix"; readonly id: string }
  | { readonly kind: "generate" }
  | { readonly kind: "gate" }
  /** The critic's agent, which submits a file. */
  | { readonly kind: "look"; readonly isSecond: boolean; readonly resultFile: string }
  /** The agent of another gate, which submits a file of checks. */
  | { readonly kind: "ask"; readonly resultFile: string }
  | { readonly kind: "added" };

/** Lets a running job do its work and end. */
export function finishJob(random: Random, volume: FakeVolume, job: FakeJob, work: Work): void {
  const cwd = job.spec.stages.at(-1)?.cwd;
  const tree = cwd === undefined ? undefined : volume.trees.get(cwd);
  if (tree === undefined) {
    endJob(job, "failed", 0);
    return;
  }
  if (work.kind === "look") volume.files.set(work.resultFile, lookAt(random, tree, work.isSecond));
  if (work.kind === "ask" && random.chance(0.8)) {
    volume.files.set(work.resultFile, JSON.stringify(random.chance(0.5) ? ["heeded"] : []));
  }
  if (doWork(random, tree, work)) endJob(job, "passed", null);
  else endJob(job, "failed", 0);
}

/**
 * The critic's findings: the bugs it found, and now and then a false one; in the second look,
 * whether they are real.
 */
function lookAt(random: Random, { files }: FakeTree, isSecond: boolean): string {
  const bugs = [...files.keys()].filter((path) => path.startsWith("bug/"));
  if (isSecond) return JSON.stringify({ confirmed: bugs.length > 0 });
  return JSON.stringify(bugs.length === 0 && random.chance(0.2) ? [...files.keys()].slice(0, 1) : bugs);
}

function doWork(random: Random, { files }: FakeTree, work: Work): boolean {
  const bugs = [...files.keys()].filter((path) => path.startsWith("bug/"));
  switch (work.kind) {
    case "look":
      return true;
    case "ask":
      return random.chance(0.8);
    case "added":
      // A fixer that is asked although there are no bugs leaves a note.
      return [...files.keys()].some((path) => path.startsWith("note/"));
    case "gate":
      return bugs.length === 0;
    case "generate":
      files.set(generated, ownOf(files));
      return true;
    case "fix":
      for (const path of random.some(bugs, random.between(0, bugs.length + 1))) files.delete(path);
      if (bugs.length === 0) files.set(`note/${work.id}`, "heeded");
      return random.chance(0.9);
    case "task":
      return doTask(files, work);
  }
}

function doTask(files: Map<string, string>, { key, attempt, behaviour }: Extract<Work, { kind: "task" }>): boolean {
  const { text, fate, changesNothing, shared, leavesBug, generates } = behaviour;
  if (fate === "fails" || (fate === "fails-once" && attempt === 1)) {
    files.set(`junk/${key}`, key);
    return false;
  }
  if (changesNothing) return true;
  files.set(`own/${key}`, `${text}#${attempt}`); // at other times it also changes something
  const lines = shared === null ? "" : (files.get(shared) ?? "");
  if (shared !== null && !lines.includes(`${text}\n`)) files.set(shared, `${lines}${text}\n`);
  if (leavesBug) files.set(`bug/${key}`, "bug");
  if (generates) files.set(generated, ownOf(files));
  return true;
}

const ownOf = (files: ReadonlyMap<string, string>): string =>
  [...files.keys()]
    .filter((path) => path.startsWith("own/"))
    .sort()
    .join();

/**
 * The lines and files in the tree once these tasks are joined; lines of shared files come in any
 * order.
 */
export function expectedTree(behaviours: ReadonlyMap<string, Behaviour>): Record<string, string> {
  const expected: Record<string, string> = {};
  for (const [key, { text, changesNothing, shared }] of behaviours) {
    if (changesNothing) continue;
    expected[`own/${key}`] = text;
    if (shared !== null) expected[shared] = sortedLines(`${expected[shared] ?? ""}${text}\n`);
  }
  return expected;
}

/** The tree without the files of fixers and generators. */
export function comparableTree(tree: ReadonlyMap<string, string>): Record<string, string> {
  const kept = [...tree].filter(
    ([path]) => path.startsWith("own/") || path.startsWith("shared/") || path.startsWith("junk/"),
  );
  return Object.fromEntries(
    kept.map(([path, text]) => [path, path.startsWith("shared/") ? sortedLines(text) : text.replace(/#.*/, "")]),
  );
}

const sortedLines = (text: string): string => text.split("\n").filter(Boolean).sort().join("\n").concat("\n");
