import type { EarlierPlan } from "../../agents/port.ts";
import { makesPlan, planTaskKey, withoutPlanTask, withPlanTask } from "../../domain/brief.ts";
import type { Plan } from "../../domain/plan.ts";
import { readMadePlan } from "../../plan/made-plan.ts";
import { plannerJsonSchema } from "../../plan/planner-schema.ts";
import { planText } from "../../plan/write-plan.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext, AttemptRow, StoreTransaction } from "../../store/port.ts";
import type { Mask } from "../masking/masking.ts";
import { handoverPath, planFileName } from "../names.ts";
import type { Ports } from "../port.ts";
import { compareTasks, storeTasksOf } from "./edited-tasks.ts";

// What becomes of the plan that a planner hands in. It is judged with the attempt, kept with its
// verdict, and becomes the build's plan in the transaction that settles the attempt: once, or not
// at all (W3, W4).

const mostBytes = 1024 * 1024;
const mostHandedIn = 64 * 1024;
const mostFaults = 100;

/** Whether this attempt is to make its build's plan. */
export const isPlanner = ({ build, task }: Pick<AttemptInContext, "build" | "task">): boolean =>
  makesPlan(build, task?.key);

/** What a planner hands in, as a JSON schema. */
export const plannerSchema: unknown = plannerJsonSchema();

/** The plan that was handed in; else what is wrong, and what was handed in for one. */
export interface JudgedPlan {
  readonly plan?: Plan;
  readonly reason?: string;
  readonly handedIn?: string;
}

/** Reads what the planner handed in, and checks it. */
export async function judgePlan(
  { guest }: Pick<SandboxEndpoint, "guest">,
  { attempt, build }: Pick<AttemptInContext, "attempt" | "build">,
  mask: Mask,
): Promise<JudgedPlan> {
  const path = `${handoverPath(attempt.jobKey)}/result.json`;
  const found = await guest.stat(path);
  if (found !== null && found.sizeBytes > mostBytes) return { reason: "its plan is larger than 1 MiB" };
  const file = found?.type === "file" ? await guest.readFile(path, { maxBytes: mostBytes }) : null;
  if (file === null) return { reason: "it handed in no plan" };
  const text = mask(file.toString("utf8"));
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    return { reason: `its plan is not JSON: ${(error as Error).message}`, handedIn: text.slice(0, mostHandedIn) };
  }
  const made = readMadePlan(value, withoutPlanTask(build.plan));
  if ("plan" in made) return made;
  const faults = made.faults.map(({ path, message }) => `${path === "" ? "the plan" : path}: ${message}`);
  const more = faults.length > mostFaults ? [`and ${faults.length - mostFaults} more`] : [];
  const heading = `its plan has ${faults.length === 1 ? "a fault" : `${faults.length} faults`}:`;
  const reason = [heading, ...faults.slice(0, mostFaults), ...more].join("\n");
  return { reason, handedIn: text.slice(0, mostHandedIn) };
}

/**
 * Makes the plan of this attempt the build's, behind the task that made it; in the transaction that
 * settles the attempt.
 */
export async function applyPlan(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const { plan } = attempt.verdict ?? {};
  if (plan === undefined) return;
  const build = await transaction.builds.get({ id: attempt.buildId });
  const tasks = await transaction.tasks.list({ buildId: build.id }, { by: "position" });
  const edited = withPlanTask(plan, tasks.find(({ key }) => key === planTaskKey)!.definition);
  await storeTasksOf(transaction, ports, build, { tasks, edited, edit: compareTasks(tasks, edited) });
  await transaction.builds.update({ id: build.id }, { plan: edited, planVersion: build.planVersion + 1 });
}

/** Writes the plan out for a person to read and to edit. Repeated, it writes the same. */
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

/**
 * Why the plan is made again: what an attempt before ended with, or what a person said of its plan.
 */
export async function earlierPlan(
  { store }: Pick<Ports, "store">,
  { attempt, build }: Pick<AttemptInContext, "attempt" | "build">,
): Promise<EarlierPlan | null> {
  const by = { by: "number", descending: true } as const;
  const outcome = ["succeeded", "failed", "timed-out", "refused"] as const;
  const last = await store.attempts.find({ taskId: attempt.taskId!, status: "settled", outcome: [...outcome] }, by);
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
