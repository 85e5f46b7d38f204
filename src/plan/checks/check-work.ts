import { builtInRoles, gatesWithAgents, type Plan } from "../../domain/plan/plan.ts";
import type { FaultSink, PlanPath } from "../faults/fault-sink.ts";
import { asRecord, asText, type LooseTask, own } from "../faults/loose.ts";
import { didYouMean } from "../faults/suggest.ts";

/**
 * Checks that every role is complete, and that every task and gate has work and an agent for it.
 */
export function checkWork(plan: unknown, tasks: readonly LooseTask[], sink: FaultSink): void {
  const agents = asRecord(asRecord(plan).agents);
  for (const role of Object.keys(agents)) checkAgent(role, asRecord(agents[role]), sink);
  const roles = new Set<string>([...builtInRoles, ...Object.keys(agents)]);
  for (const task of tasks) {
    checkWorkOf(task, sink);
    checkRole(task, roles, agents, sink);
  }
  const gates = asRecord(asRecord(plan).gates);
  for (const gate of gatesWithAgents) {
    const role = asText(asRecord(gates[gate]).agent);
    if (role !== null) checkGateRole({ gate, role }, roles, agents, sink);
  }
}

function checkAgent(role: string, agent: Readonly<Record<string, unknown>>, sink: FaultSink): void {
  const need = (key: "command" | "model", what: string): void => {
    if (own(agent, key) !== undefined) return;
    const message = `The runtime ${String(agent.runtime)} of role ${role} needs ${what}: add \`${key}\`.`;
    sink.add("missing", ["agents", role, key], message);
  };
  if (agent.runtime === "command" || agent.runtime === "acp") need("command", "a command line");
  if (agent.runtime === "builtin") need("model", "a model");
}

const nameOf = (task: LooseTask): string => `Task ${task.id ?? `tasks[${task.index}]`}`;

function checkWorkOf(task: LooseTask, sink: FaultSink): void {
  const hasRun = own(task.fields, "run") !== undefined;
  const hasInstructions = own(task.fields, "instructions") !== undefined;
  if (!hasRun && !hasInstructions) {
    const message = `${nameOf(task)} has nothing to do: give it \`instructions\` for an agent or a script in \`run\`.`;
    sink.add("no-work", ["tasks", task.index], message);
  }
  if (hasRun && hasInstructions) {
    const message = `${nameOf(task)} has both \`run\` and \`instructions\`: keep only one of them.`;
    sink.add("two-works", ["tasks", task.index, "run"], message, "key");
  }
}

function checkRole(
  task: LooseTask,
  roles: ReadonlySet<string>,
  agents: Readonly<Record<string, unknown>>,
  sink: FaultSink,
): void {
  const path = ["tasks", task.index, "agent"];
  const role = asText(task.fields.agent);
  const hasRun = own(task.fields, "run") !== undefined;
  if (role === null) {
    const absent = own(task.fields, "agent") === undefined && own(task.fields, "instructions") !== undefined;
    if (absent && !hasRun)
      sink.add("missing", path, `${nameOf(task)} has instructions but no \`agent\`: name the role that follows them.`);
    return;
  }
  if (!roles.has(role)) {
    undeclared(role, path, roles, sink);
  } else if (!hasRun && own(agents, role) === undefined && own(agents, "default") === undefined) {
    const message = `The role ${role} has no runtime: declare agents.${role} or agents.default, or give the task a \`run\` script.`;
    sink.add("no-runtime", path, message);
  }
}

function undeclared(role: string, path: PlanPath, roles: ReadonlySet<string>, sink: FaultSink): void {
  const hint = didYouMean(role, roles) || `: declare it under \`agents\` or use one of ${builtInRoles.join(", ")}.`;
  sink.add("undeclared-role", path, `There is no role ${role}${hint}`);
}

/** Roles whose job in a build is not to add checks. */
const otherwiseBusy: Readonly<Record<string, string>> = {
  planner: "makes the plan",
  critic: "reviews what a wave changed",
  fixer: "fixes what gates find",
  default: "stands for roles that are not named",
};

/** Checks that a gate's role has a runtime, because a plan gives it no `run` script. */
function checkGateRole(
  { gate, role }: { readonly gate: string; readonly role: string },
  roles: ReadonlySet<string>,
  agents: Readonly<Record<string, unknown>>,
  sink: FaultSink,
): void {
  const path = ["gates", gate, "agent"];
  const busy = Object.hasOwn(otherwiseBusy, role) ? otherwiseBusy[role] : undefined;
  if (busy !== undefined) {
    const message = `The role ${role} ${busy} and cannot be the agent of a gate: use another role, such as \`tester\`, and declare it under \`agents\`.`;
    sink.add("unsupported", path, message);
  } else if (!roles.has(role)) {
    undeclared(role, path, roles, sink);
  } else if (own(agents, role) === undefined && own(agents, "default") === undefined) {
    const message = `The role ${role} has no runtime: declare agents.${role} or agents.default, or remove gates.${gate}.agent.`;
    sink.add("no-runtime", path, message);
  }
}

/** Warns of tasks whose acceptance is only text when no critic agent reads it. */
export function uncheckedAcceptance(plan: Plan): string[] {
  if (Object.hasOwn(plan.agents, "critic") && plan.gates.critic !== false) return [];
  return plan.tasks
    .filter(({ acceptance }) => acceptance.length > 0 && acceptance.every((entry) => entry.check === null))
    .map(
      ({ key }) =>
        `The acceptance of task ${key} is checked by nobody: it has no \`check\`, and no agent \`critic\` reads its text.`,
    );
}
