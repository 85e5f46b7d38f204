import type { Plan, PlanFault } from "../../domain/plan/plan.ts";

/** Returns a fault for each part of a plan that `build` cannot do. */
export function unsupportedFeatures({ deliver }: Plan): PlanFault[] {
  const fault = (name: string, message: string): PlanFault => ({
    ...{ code: "unsupported", path: `deliver.${name}`, line: null },
    message: `deliver.${name} ${message}`,
  });
  if (deliver.repo !== null) {
    const hasIssues = deliver.forge !== "local";
    return deliver.issue === undefined || hasIssues ? [] : [fault("issue", "is not for the local forge: it has none.")];
  }
  const settings = ["base", "pullRequests", "merge", "create", "issue"] as const;
  return settings
    .filter((name) => deliver[name] != null)
    .map((name) =>
      fault(name, "is about a repository at a forge, and the plan names none: add deliver.repo: owner/name."),
    );
}
