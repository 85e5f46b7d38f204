import type { Plan, PlanFault } from "../../domain/plan/plan.ts";

/** Returns a fault for each part of a plan that `build` cannot do. */
export function unsupportedFeatures({ deliver }: Plan): PlanFault[] {
  if (deliver.repo !== null) return [];
  const settings = (["base", "pullRequests", "merge", "create"] as const).filter((name) => deliver[name] != null);
  return settings.map((name) => ({
    code: "unsupported",
    path: `deliver.${name}`,
    line: null,
    message: `deliver.${name} is about a repository at a forge, and the plan names none: add deliver.repo: owner/name.`,
  }));
}
