import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import type { ApprovalRow, AttemptRow, BuildRow, GateRunRow, JobRow, TaskRow, WaveRow } from "../../src/store/port.ts";
import type { FakeGit } from "./fake-git.ts";
import { emptyVolume, type Machines } from "./fake-sandbox.ts";
import { comparableTree, expectedTree, type SimulatedPlan } from "./plans.ts";

export const project = "simulated";
export const projectId = projectIdFor("default", project);

/** Chances that a seed gives to the events in its world. */
export interface Weather {
  readonly drops: number;
  readonly repeats: number;
  readonly forgets: number;
  readonly deaths: number;
  readonly takeovers: number;
  readonly machineDeaths: number;
  readonly volumeLosses: number;
  readonly cancels: number;
  readonly retries: number;
  readonly rollbacks: number;
  readonly edits: number;
  /** How often the database or the sandbox cannot be reached. */
  readonly outages: number;
  readonly timeJumps: number;
  /** How often there is no room for a sandbox when it is requested. */
  readonly shortages: number;
  /** How often a volume is found above its limit. */
  readonly fullVolumes: number;
}

export interface Ended {
  rows<Row>(name: "approvals" | "builds" | "attempts" | "gateRuns" | "jobs" | "tasks" | "waves"): Row[];
  readonly git: FakeGit;
  readonly machine: ReturnType<Machines["get"]>;
  readonly plans: ReadonlyMap<string, SimulatedPlan>;
  readonly weather: Weather;
  readonly takenBack: ReadonlySet<string>;
  readonly halfDone: ReadonlySet<string>;
  /** Whether some function failed for good. */
  readonly gaveUp: boolean;
}

/** Checks the world once it has come to rest, and returns what is wrong with it. */
export function atTheEnd({ rows, git, machine, plans, weather, takenBack, halfDone, gaveUp }: Ended): string[] {
  const problems: string[] = [];
  const attempts = rows<AttemptRow>("attempts");
  for (const build of rows<BuildRow>("builds")) {
    const { behaviours, mayFail } = plans.get(build.id)!;
    const refused = rows<ApprovalRow>("approvals").some(({ decision }) => decision === "rejected");
    // Another build may have moved main on since the edited one ended.
    const passedBy = (plans.size > 1 && takenBack.size > 0) || halfDone.size > 0;
    const tooLate = build.plan.limits.budget.wallClockMs !== null;
    const unreachable = weather.outages > 0 || weather.fullVolumes > 0;
    const excused = mayFail || passedBy || tooLate || refused || weather.cancels > 0 || unreachable;
    if (build.status !== "completed" && !excused) {
      const said = rows<WaveRow>("waves").flatMap((wave) => wave.reason ?? []);
      problems.push(`it ended ${build.status}: ${build.reason} (${said.join(", ")})`);
    }
    if (build.status !== "completed") continue;
    const tree = comparableTree(git.commits.get(build.headSha!)!.tree);
    const expected = plans.size === 1 ? expectedTree(behaviours) : tree;
    if (JSON.stringify(sorted(tree)) !== JSON.stringify(sorted(expected)))
      problems.push(`its tree is ${JSON.stringify(tree)} instead of ${JSON.stringify(expected)}`);
    for (const task of rows<TaskRow>("tasks").filter((row) => row.buildId === build.id && !takenBack.has(build.id))) {
      const good = attempts.filter((attempt) => attempt.taskId === task.id && attempt.outcome === "succeeded").length;
      if (good !== task.conflicts.length + 1) problems.push(`task ${task.key} was done ${good} times`);
    }
  }
  const last = rows<BuildRow>("builds").findLast(({ status }) => status === "completed");
  const main = git.refs.get(`${projectId} refs/heads/main`);
  const isElsewhere = plans.size > 1 || halfDone.size > 0;
  if (!isElsewhere && last !== undefined && main !== last.headSha) problems.push(`main is ${main}`);
  for (const run of rows<GateRunRow>("gateRuns"))
    if (run.status !== "finished") problems.push(`gate ${run.id} is open`);
  // A function that failed for good left this unclosed.
  if (gaveUp) return problems;
  for (const job of rows<JobRow>("jobs")) if (job.status !== "ended") problems.push(`job ${job.key} is ${job.status}`);
  const { trees, files, jobs } = machine?.volume ?? emptyVolume();
  for (const path of trees.keys()) problems.push(`tree ${path} is left`);
  for (const path of files.keys()) problems.push(`file ${path} is left`);
  // A key that was cancelled before its job started is kept, so that it never starts.
  for (const [key, { state, spec }] of jobs)
    if (spec.stages.length > 0) problems.push(`job ${key} is left, ${state.status}`);
  return problems;
}

const sorted = (tree: Record<string, string>) => Object.entries(tree).sort();
