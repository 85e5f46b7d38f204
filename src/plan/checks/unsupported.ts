import type { Plan, PlanFault } from "../../domain/plan/plan.ts";

/** Returns a fault for each feature of a plan that `build` does not support yet. */
export function unsupportedFeatures(plan: Plan): PlanFault[] {
  const faults: PlanFault[] = [];
  const refuse = (path: string, feature: string, remedy: string): void => {
    const message = `${feature} is not supported by \`build\` in this version: ${remedy}.`;
    faults.push({ code: "unsupported", path, line: null, message });
  };
  if (plan.deliver.forge === "github") refuse("deliver.forge", "Delivery to GitHub", "use forge local");
  return faults;
}
