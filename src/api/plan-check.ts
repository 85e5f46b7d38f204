import type { Plan, PlanFault } from "../domain/plan/plan.ts";
import { createTaskGraph } from "../domain/plan/task-graph.ts";
import { planWaves } from "../domain/plan/wave-planner.ts";
import { unsupportedFeatures } from "../plan/checks/unsupported.ts";
import { parsePlan } from "../plan/parse-plan.ts";
import { readPlanText } from "../plan/plan-text.ts";

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

/** Checks the text of a plan that came without a folder. Faults are data. */
export function checkPlanText(text: string, format: "yaml" | "json", env: Environment): CheckedPlan {
  const { plan, outline, graph, faults, warnings } = parsePlan(text, { baseDir: null, env, format });
  const all = plan === null ? faults : [...faults, ...unsupportedFeatures(plan)];
  if (outline === null) return { waves: [], criticalPath: [], faults: all, warnings, plan: null };
  const known = graph ?? createTaskGraph(outline.tasks);
  const waves = planWaves(outline, known).map(({ number, tasks }) => ({ number, tasks }));
  return { waves, criticalPath: known.criticalPath(), faults: all, warnings, plan: all.length === 0 ? plan : null };
}

/** Returns the value in a plan's text, or undefined if it cannot be read. */
export const planValue = (text: string, format: "yaml" | "json"): unknown => readPlanText(text, format).value;
