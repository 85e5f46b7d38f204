import { gatesWithAgents } from "../../domain/plan/plan.ts";
import { type PromptKind, placeholderFaults, promptKindOf, promptPlaceholders } from "../../domain/plan/prompts.ts";
import type { FaultSink, PlanPath } from "../faults/fault-sink.ts";
import { asList, asRecord, asText } from "../faults/loose.ts";
import { didYouMean } from "../faults/suggest.ts";
import type { PlanFiles } from "./check-paths.ts";

/** Checks the prompts of roles: every placeholder exists, and none that is required is missing. */
export function checkPrompts(plan: unknown, files: PlanFiles, sink: FaultSink): void {
  const gates = asRecord(asRecord(plan).gates);
  const gateRoles = gatesWithAgents.map((gate) => asText(asRecord(gates[gate]).agent));
  for (const [role, agent] of Object.entries(asRecord(asRecord(plan).agents))) {
    const { prompt } = asRecord(agent);
    const file = asText(asRecord(prompt).file);
    const template = file === null ? asText(prompt) : files.get(file);
    if (template == null) continue;
    const path = ["agents", role, "prompt"];
    checkPrompt({ role, kind: promptKindOf(role, gateRoles) }, template, path, sink);
    if (gateRoles.includes(role)) checkSingleUse(plan, role, path, sink);
  }
}

/** Checks that a role with its own prompt has only one job, a task or a gate's checks. */
function checkSingleUse(plan: unknown, role: string, path: PlanPath, sink: FaultSink): void {
  const task = asList(asRecord(plan).tasks)
    .map(asRecord)
    .find(({ agent, run }) => agent === role && run === undefined);
  if (task === undefined) return;
  const message = `The role ${role} is the agent of a gate and of the task ${asText(task.id) ?? "in this plan"}, but one prompt cannot serve both: give the gate its own role.`;
  sink.add("unsupported", path, message);
}

function checkPrompt(
  { role, kind }: { readonly role: string; readonly kind: PromptKind },
  template: string,
  path: PlanPath,
  sink: FaultSink,
): void {
  const { required, optional } = promptPlaceholders[kind];
  const { unknown, missing } = placeholderFaults(kind, template);
  for (const name of unknown) {
    const hint =
      didYouMean(name, [...required, ...optional]) || `: use one of ${[...required, ...optional].join(", ")}.`;
    sink.add("bad-prompt", path, `The prompt of the role ${role} uses {{${name}}}, which does not exist${hint}`);
  }
  for (const name of missing) {
    sink.add(
      "bad-prompt",
      path,
      `The prompt of the role ${role} lacks {{${name}}}: add it where that section belongs.`,
    );
  }
}
