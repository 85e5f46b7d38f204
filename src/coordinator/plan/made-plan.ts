import type { EarlierPlan } from "../../agents/port.ts";
import { present } from "../../domain/known.ts";
import { makesPlan, planFileName, planTaskKey, withoutPlanTask } from "../../domain/plan/brief.ts";
import { withFirstTask } from "../../domain/plan/merge-task.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { handoverPath } from "../../domain/sandbox/volume-paths.ts";
import { readMadePlan } from "../../plan/made-plan.ts";
import { plannerJsonSchema } from "../../plan/planner-schema.ts";
import { planText } from "../../plan/write-plan.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext, AttemptRow, StoreTransaction } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import type { Mask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";
import { compareTasks, storeTasksOf } from "./edited-tasks.ts";

// Handles the plan that a planner submits. It is judged with the attempt and stored with its
// verdict, and becomes the build's plan in the transaction that settles the attempt, so at most
// once (W3, W4).

const mostBytes = 1024 * 1024;
const maxSubmittedLength = 64 * 1024;
const maxFaults = 100;

/** Whether this is a planner's attempt. */
export const isPlanner = ({ build, task }: Pick<AttemptInContext, "build" | "task">): boolean =>
  makesPlan(build, task?.key);

/** The JSON schema of a planner's result. */
export const plannerSchema: unknown = plannerJsonSchema();

/** The submitted plan, or the reason it is refused, with the submitted text. */
export interface JudgedPlan {
  readonly plan?: Plan;
  readonly reason?: string;
  readonly handedIn?: string;
}

/** Reads and checks the submitted plan. */
export async function judgePlan(
  { guest }: Pick<SandboxEndpoint, "guest">,
  { attempt, build }: Pick<AttemptInContext, "attempt" | "build">,
  mask: Mask,
): Promise<JudgedPlan> {
  const path = `${handoverPath(attempt.jobKey)}/result.json`;
  const found = await guest.stat(path);
  if (found !== null && found.sizeBytes > mostBytes) return { reason: "its plan is larger than 1 MiB" };
  const file = found?.type === "file" ? await guest.readFile(path, { maxBytes: mostBytes }) : null;
  if (file === null) return { reason: "it submitted no plan" };
  const text = mask(file.toString("utf8"));
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    return { reason: `its plan is not JSON: ${(error as Error).message}`, handedIn: text.slice(0, maxSubmittedLength) };
  }
  const made = readMadePlan(value, withoutPlanTask(build.plan));
  if ("plan" in made) return made;
  const faults = made.faults.map(({ path, message }) => `${path === "" ? "the plan" : path}: ${message}`);
  const more = faults.length > maxFaults ? [`and ${faults.length - maxFaults} more`] : [];
  const heading = `its plan has ${faults.length === 1 ? "a fault" : `${faults.length} faults`}:`;
  const reason = [heading, ...faults.slice(0, maxFaults), ...more].join("\n");
  return { reason, handedIn: text.slice(0, maxSubmittedLength) };
}

/** Makes this attempt's plan the build's, in the transaction that settles the attempt. */
export async function applyPlan(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const { plan } = attempt.verdict ?? {};
  if (plan === undefined) return;
  const build = await transaction.builds.get({ id: attempt.buildId });
  const tasks = await tasksOfBuild(transaction, build.id);
  const edited = withFirstTask(
    plan,
    present(
      tasks.find(({ key }) => key === planTaskKey),
      planTaskKey,
    ).definition,
  );
  await storeTasksOf(transaction, ports, build, { tasks, edited, edit: compareTasks(tasks, edited) });
  await transaction.builds.update({ id: build.id }, { plan: edited, planVersion: build.planVersion + 1 });
}

/** Writes the plan to a file for a person to read and edit; a repeated call writes the same. */
export async function writePlanOut(ports: Pick<Ports, "planFiles">, loaded: AttemptInContext): Promise<void> {
  const { attempt, build, wave } = loaded;
  const { plan } = attempt.verdict ?? {};
  if (plan === undefined || build.brief === null) return;
  const heading = [
    `The plan that a planner made for build ${build.id}. The brief was:`,
    `  ${build.brief.text.replace(/\s+/g, " ").trim()}`,
    `Edit it as you like, then: wavesmith resume ${build.id} --plan THIS-FILE`,
  ];
  await ports.planFiles.write(planFileName(build.id, wave.number), planText(plan, heading));
}

/** Returns the rejected plan: why the last attempt failed, or a person's reason. */
export async function findEarlierPlan(
  { store }: Pick<Ports, "store">,
  { attempt, build }: Pick<AttemptInContext, "attempt" | "build">,
): Promise<EarlierPlan | null> {
  const by = { by: "number", descending: true } as const;
  const outcome = ["succeeded", "failed", "timed-out", "refused"] as const;
  const last = await store.attempts.find(
    { taskId: present(attempt.taskId, "attempt.taskId"), status: "settled", outcome: [...outcome] },
    by,
  );
  if (last === null) return null;
  if (last.outcome !== "succeeded") {
    const text = last.verdict?.handedIn ?? null;
    return { by: text === null ? "attempt" : "check", reason: last.reason ?? "unknown", text };
  }
  const latest = { by: "createdAt", descending: true } as const;
  const rejected = await store.approvals.find({ waveId: last.waveId, decision: "rejected" }, latest);
  const reason = rejected?.reason ?? "the build was taken back to where it began";
  return { by: "person", reason, text: planText(withoutPlanTask(build.plan)) };
}
