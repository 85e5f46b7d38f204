import { planTaskKey } from "../domain/plan/brief.ts";
import type { Plan, PlanFault } from "../domain/plan/plan.ts";
import { unsupportedFeatures } from "./checks/unsupported.ts";
import { asList, asRecord } from "./faults/loose.ts";
import { parsePlanValue } from "./parse-plan.ts";
import { planFileSchema } from "./plan-file-schema.ts";
import { plannerPlanSchema } from "./planner-schema.ts";
import { agentFile } from "./write-plan.ts";

/** A planner's plan, or its faults. */
export type MadePlan = { readonly plan: Plan } | { readonly faults: readonly PlanFault[] };

/**
 * Checks a planner's plan by the rules of a plan file, and refuses keys that only the person may
 * set. Agents, source, network, limits and the delivery stay those of the plan that contains the
 * planner's task.
 */
export function readMadePlan(value: unknown, plannersPlan: Plan): MadePlan {
  const reserved = reservedFaults(value);
  const agents = Object.fromEntries(Object.entries(plannersPlan.agents).map(([role, spec]) => [role, agentFile(spec)]));
  const parsed = parsePlanValue({ ...plannersPart(value), agents }, { baseDir: null, env: {} });
  const refused = parsed.plan === null ? parsed.faults : unsupportedFeatures(parsed.plan);
  const faults = [...reserved, ...refused];
  if (parsed.plan === null || faults.length > 0) return { faults };
  const { agents: ours, source, network, networkAsked, modelTools, limits, deliver, context } = plannersPlan;
  const plan = { ...parsed.plan, agents: ours, source, network, networkAsked, modelTools, limits, deliver };
  return { plan: { ...plan, context: [...context, ...parsed.plan.context] } };
}

const plannersKeys = plannerPlanSchema.shape;
const plannersTaskKeys = plannersKeys.tasks.element.shape;
const fileKeys = planFileSchema.shape;
const fileTaskKeys = fileKeys.tasks.element.shape;
const plannersGates = plannersKeys.gates.unwrap().shape;

/**
 * Whether this key is allowed in a plan file but not in a planner's plan. The plan's own check
 * reports keys that neither allows.
 */
const isReserved = (key: string, file: object, planners: object): boolean =>
  Object.hasOwn(file, key) && !Object.hasOwn(planners, key);

function reservedFaults(value: unknown): PlanFault[] {
  const faults: PlanFault[] = [];
  const refuse = (path: string, reason = "is set by the person, not by the planner"): void => {
    faults.push({ code: "reserved", path, line: null, message: `${path} ${reason}: leave it out.` });
  };
  for (const key of Object.keys(asRecord(value))) if (isReserved(key, fileKeys, plannersKeys)) refuse(key);
  const gates = asRecord(asRecord(value).gates);
  if (asRecord(gates.testing).minTests === 0) {
    refuse("gates.testing.minTests", "is 0, so a tree without tests would pass");
  }
  for (const [name, gate] of Object.entries(gates)) {
    if (gate === false) refuse(`gates.${name}`, "switches a gate off, which only the person may do");
    else if (!Object.hasOwn(plannersGates, name)) refuse(`gates.${name}`);
    else if (asRecord(gate).agent !== undefined) refuse(`gates.${name}.agent`);
  }
  asList(asRecord(value).tasks).forEach((task, index) => {
    const fields = asRecord(task);
    for (const key of Object.keys(fields)) {
      if (isReserved(key, fileTaskKeys, plannersTaskKeys)) refuse(`tasks[${index}].${key}`);
    }
    if (fields.id === planTaskKey) {
      refuse(`tasks[${index}].id`, `is ${planTaskKey}, the id of the task that makes this plan`);
    }
  });
  return faults;
}

/** Removes the keys that were already refused, so that nothing is reported twice. */
function plannersPart(value: unknown): Record<string, unknown> {
  const record = asRecord(value);
  const keptEntries = Object.entries(record).filter(([key]) => !isReserved(key, fileKeys, plannersKeys));
  if (Array.isArray(record.tasks)) keptEntries.push(["tasks", record.tasks.map(plannersTask)]);
  if (record.gates !== undefined) keptEntries.push(["gates", plannersGatesOf(record.gates)]);
  return Object.fromEntries(keptEntries);
}

function plannersTask(task: unknown): unknown {
  if (typeof task !== "object" || task === null || Array.isArray(task)) return task;
  const fields = asRecord(task);
  const keptEntries = Object.entries(fields).filter(([key]) => !isReserved(key, fileTaskKeys, plannersTaskKeys));
  // A task with a script was already refused; do not also report its missing instructions.
  if (fields.run !== undefined && fields.instructions === undefined) keptEntries.push(["instructions", "-"]);
  return Object.fromEntries(keptEntries);
}

function plannersGatesOf(gates: unknown): unknown {
  if (typeof gates !== "object" || gates === null || Array.isArray(gates)) return gates;
  const keptEntries = Object.entries(gates).filter(
    ([name, gate]) => Object.hasOwn(plannersGates, name) && gate !== false,
  );
  return Object.fromEntries(keptEntries.map(([name, gate]) => [name, withoutAgent(gate)]));
}

function withoutAgent(gate: unknown): unknown {
  if (typeof gate !== "object" || gate === null || Array.isArray(gate)) return gate;
  return Object.fromEntries(Object.entries(gate).filter(([key]) => key !== "agent"));
}
