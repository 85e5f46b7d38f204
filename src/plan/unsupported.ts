import { agentSpecFor, type Plan, type PlanFault } from "../domain/plan.ts";

/**
 * What a valid plan asks for that `build` cannot do in this version, each by name; empty when it can be built. A role's
 * runtime counts when somebody would start it: a task without `run`, the critic unless its gate is off, the fixer unless
 * there are no fix rounds. Roles not declared stand in for `default`, as they do in a build.
 */
export function unsupportedFeatures(plan: Plan): PlanFault[] {
  const faults: PlanFault[] = [];
  const refuse = (path: string, what: string, remedy: string): void => {
    const message = `${what} is not supported by \`build\` in this version: ${remedy}.`;
    faults.push({ code: "unsupported", path, line: null, message });
  };
  for (const [role, runtime] of unsupportedRuntimes(plan)) {
    refuse(
      `agents.${role}.runtime`,
      `The runtime ${runtime} (role ${role})`,
      "use the runtime command, or `run` in its tasks",
    );
  }
  if (plan.deliver.forge === "github") refuse("deliver.forge", "Delivery to GitHub", "use forge local");
  if (plan.notify.length > 0) refuse("notify", "Notifying webhooks", "remove notify");
  const { usd, tokens } = plan.limits.budget;
  if (usd !== null) refuse("limits.budget.usd", "A budget in USD", "remove it");
  if (tokens !== null) refuse("limits.budget.tokens", "A budget in tokens", "remove it");
  return faults;
}

/** The declared role, which may be `default`, and its runtime, once each. */
function unsupportedRuntimes(plan: Plan): Map<string, string> {
  const roles = plan.tasks.filter((task) => task.run === null).map((task) => task.agent);
  if (plan.gates.critic !== false) roles.push("critic");
  if (plan.gates.maxFixRounds > 0) roles.push("fixer");
  const found = new Map<string, string>();
  for (const role of roles) {
    const runtime = agentSpecFor(plan, role)?.runtime;
    const declared = Object.hasOwn(plan.agents, role) ? role : "default";
    if (runtime === "acp" || runtime === "builtin") found.set(declared, runtime);
  }
  return found;
}
