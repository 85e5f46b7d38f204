import type { Plan, PlanFault } from "../domain/plan/plan.ts";
import { createTaskGraph } from "../domain/plan/task-graph.ts";
import { planWaves } from "../domain/plan/wave-planner.ts";
import { unsupportedFeatures } from "../plan/checks/unsupported.ts";
import { parsePlan, parsePlanValue, parseReadPlan } from "../plan/parse-plan.ts";
import { type ReadText, readPlanText } from "../plan/plan-text.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The output of `plan --json`. */
export interface PlanCheck {
  readonly waves: readonly { readonly number: number; readonly tasks: readonly string[] }[];
  readonly criticalPath: readonly string[];
  /** With their lines; empty for a plan that would start. */
  readonly faults: readonly PlanFault[];
  readonly warnings: readonly string[];
}

export interface CheckedPlan extends PlanCheck {
  /** Null for a plan with faults. */
  readonly plan: Plan | null;
}

/** Reads the text of a plan, or of a request with one. A text may be large: read it once. */
export const readSubmittedPlan = (text: string, format: "yaml" | "json"): SubmittedPlan => readPlanText(text, format);
export type SubmittedPlan = ReadText;

/** Checks the text of a plan that came without a folder. Faults are data. */
export function checkPlanText(text: string, format: "yaml" | "json", env: Environment): CheckedPlan {
  const { plan, outline, graph, faults, warnings } = parsePlan(text, { baseDir: null, env, format });
  const all = plan === null ? faults : [...faults, ...unsupportedFeatures(plan)];
  if (outline === null) return { waves: [], criticalPath: [], faults: all, warnings, plan: null };
  const known = graph ?? createTaskGraph(outline.tasks);
  const waves = planWaves(outline, known).map(({ number, tasks }) => ({ number, tasks }));
  return { waves, criticalPath: known.criticalPath(), faults: all, warnings, plan: all.length === 0 ? plan : null };
}

/** Checks a plan that came without a folder, read from text or as a value, which has no lines. */
export function planOrFaults(
  from: { readonly read: SubmittedPlan } | { readonly value: unknown },
  env: Environment,
): { readonly plan: Plan | null; readonly faults: readonly PlanFault[] } {
  const options = { baseDir: null, env };
  const { plan, faults } = "read" in from ? parseReadPlan(from.read, options) : parsePlanValue(from.value, options);
  const all = plan === null ? faults : [...faults, ...unsupportedFeatures(plan)];
  return { plan: all.length === 0 ? plan : null, faults: all };
}
