import { isNamedBy } from "../../domain/paths/write-globs.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { GateFile } from "../../gates/port.ts";
import type { AttemptInContext, BuildRow, TaskRow } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import type { ChangedFile, KeepResult } from "../../workspace/port.ts";
import { commitReader } from "../commit-reader.ts";
import { acceptanceChecks } from "../gate/gate-work.ts";
import { passedBelow } from "../gate/judge/earlier-runs.ts";
import type { Ports } from "../port.ts";
import { mayChangeTests, waveMembers } from "../wave/wave-members.ts";
import { declaredByTasks } from "./agent-files.ts";

// Only tasks that the plan names may change the files that decide what a gate runs. Otherwise work
// could pass by changing its own gate.
//
// GF1. An attempt that changes such a file is refused unless a declared glob names the file, or the
// file is about tests and the task may change tests. A fix may do what the tasks of its wave may.
// GF2. A new kind of gate file is allowed as long as no gate is in force: the testing gate has
// never passed below the base, and the base has no detectable tests.

/** A change between two commits, and the files it was allowed to change. */
export interface GateFileChange {
  readonly before: string;
  readonly after: string;
  readonly changed: readonly ChangedFile[];
  readonly writes: readonly string[];
  readonly mayChangeTests: boolean;
}

export interface JudgedGateFile {
  readonly file: string;
  readonly what: string;
  readonly allowed: "declared" | "may-change-tests" | "first" | null;
}

/** Lists the changed gate files, each with the reason it is allowed; null if it is not. */
export async function judgeGateFiles(
  ports: Ports,
  build: BuildRow,
  tasks: readonly TaskRow[],
  change: GateFileChange,
): Promise<JudgedGateFile[]> {
  const commands = gateCommands(build.plan, tasks);
  if (commands.length === 0 || change.changed.length === 0) return [];
  const before = commitReader(ports, build.projectId, change.before);
  const after = commitReader(ports, build.projectId, change.after);
  const found = await ports.gates.gateFiles({ changed: change.changed, before, after, commands });
  const judged = found.map((file) => ({ ...file, allowed: allowedBy(file, change) }));
  if (!judged.some(({ isNew, allowed }) => isNew && allowed === null)) return judged;
  const inForce = await isInForce(ports, build, change.before);
  return judged.map((file) => (file.isNew && !inForce && file.allowed === null ? { ...file, allowed: "first" } : file));
}

function allowedBy({ file, aboutTests }: GateFile, change: GateFileChange): "declared" | "may-change-tests" | null {
  const last = file.split("/").length - 1;
  if (change.writes.some((glob) => isNamedBy(glob, file, last))) return "declared";
  return aboutTests && change.mayChangeTests ? "may-change-tests" : null;
}

/** Returns the commands of the gates, and setup, which runs before them; none if both are off. */
function gateCommands({ gates, setup }: Plan, tasks: readonly TaskRow[]): (string | null)[] {
  const { testing, integration } = gates;
  if (testing === false && integration === false) return [];
  return [
    ...(testing === false ? [] : [testing.command]),
    ...(integration === false
      ? []
      : [integration.command ?? [], acceptanceChecks(tasks).map(({ check }) => check)].flat()),
    ...(setup === null ? [] : [setup.run]),
  ];
}

async function isInForce(ports: Ports, build: BuildRow, sha: string): Promise<boolean> {
  if ((await passedBelow(ports, build, "testing", sha)) !== null) return true;
  return (await ports.gates.detectTests(commitReader(ports, build.projectId, sha))) !== null;
}

/** Returns why an attempt's changes to gate files are refused; null if they are allowed. */
export async function changedGatesReason(
  ports: Ports,
  { attempt, build, wave, task }: AttemptInContext,
  kept: KeepResult,
): Promise<string | null> {
  if (kept.commit === null) return null;
  const tasks = await tasksOfBuild(ports.store, build.id);
  const judged = await judgeGateFiles(ports, build, tasks, {
    ...(await rightsOf(ports, { attempt, wave, task })),
    ...(await spanOf(ports, { attempt, build, wave }, kept.commit, kept.changed)),
  });
  const refused = judged.filter(({ allowed }) => allowed === null);
  if (refused.length === 0) return null;
  const shown = refused.slice(0, 5).map(({ file, what }) => `${file} (${what})`);
  const more = refused.length > 5 ? ` and ${refused.length - 5} more` : "";
  return `${shown.join(", ")}${more}: this decides what a gate runs. A task that is to change it names it in its \`writes\` (a glob such as ** does not)`;
}

async function rightsOf(
  ports: Ports,
  { attempt, wave, task }: Pick<AttemptInContext, "attempt" | "wave" | "task">,
): Promise<Pick<GateFileChange, "writes" | "mayChangeTests">> {
  if (task !== null) return { writes: task.definition.writes ?? [], mayChangeTests: task.definition.mayChangeTests };
  const members = await waveMembers(ports, wave.id);
  const writes = attempt.kind === "generate" ? attempt.paths : declaredByTasks(members);
  return { writes, mayChangeTests: mayChangeTests(members) };
}

/** Returns the commits to compare; a fix is compared with the wave's base. */
async function spanOf(
  ports: Ports,
  { attempt, build, wave }: Pick<AttemptInContext, "attempt" | "build" | "wave">,
  after: string,
  changed: readonly ChangedFile[],
): Promise<Pick<GateFileChange, "before" | "after" | "changed">> {
  if (attempt.kind !== "fix") return { before: attempt.baseSha, after, changed };
  const own = new Set(changed.flatMap(({ path, from }) => [path, from ?? path]));
  const since = await ports.workspace.changedFiles(build.projectId, wave.baseSha, after);
  return {
    before: wave.baseSha,
    after,
    changed: since.filter(({ path, from }) => own.has(path) || own.has(from ?? path)),
  };
}
