import { WavesmithError } from "../../domain/errors.ts";
import { parseModel, providerNames } from "../../domain/models.ts";
import {
  type AgentSpec,
  agentSpecFor,
  gateRole,
  gatesWithAgents,
  type Plan,
  type PlanFault,
} from "../../domain/plan.ts";
import type { Models } from "../../models/port.ts";

/**
 * Refuses a plan whose agents could not work, before anything is started: with `plan-invalid` one
 * whose own models are faulty, with `environment` one that needs a key which is not here. A role's
 * model counts when somebody would start it.
 */
export function refuseWithoutModels(models: Pick<Models, "lacks" | "isPriced">, plan: Plan): void {
  const faults = modelFaults(models, plan);
  if (faults.length > 0) {
    throw new WavesmithError("plan-invalid", faults.map(({ path, message }) => `${path}: ${message}`).join("\n"), {
      remedy: "mend the plan's agents, or its budget",
    });
  }
  for (const { role, spec } of usedAgents(plan)) {
    if (spec.runtime !== "builtin") continue;
    const lack = models.lacks(spec.model);
    if (lack === null) continue;
    throw new WavesmithError("environment", `the role ${role} cannot use ${spec.model}: ${lack}`, {
      remedy: `set ${keysOf(spec.model ?? "")}`,
    });
  }
}

function keysOf(model: string): string {
  if (model.startsWith("openai:")) return "OPENAI_API_KEY";
  if (model.startsWith("google:")) return "GEMINI_API_KEY";
  if (model.startsWith("compatible:")) return "WAVESMITH_COMPATIBLE_URL";
  return "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN";
}

function modelFaults(models: Pick<Models, "isPriced">, plan: Plan): PlanFault[] {
  const faults: PlanFault[] = [];
  const fault = (role: string, message: string): void => {
    const path = `agents.${role}.model`;
    // Several roles may be done by the one that is declared as `default`.
    const isTold = faults.some((known) => known.path === path && known.message === message);
    if (!isTold) faults.push({ code: "model", path, line: null, message });
  };
  for (const { role, spec } of usedAgents(plan)) {
    const { provider, model } = parseModel(spec.model ?? "");
    const isNamed = providerNames.some((name) => name === provider) && model !== "";
    if (spec.runtime === "builtin" && !isNamed) {
      fault(
        role,
        `${spec.model} names no model: write provider:model, such as anthropic:claude-sonnet-5, openai:gpt-6-sol, google:gemini-3.8-flash or compatible:llama3.3`,
      );
    } else if (plan.limits.budget.usd !== null && isNamed && !models.isPriced(spec.model!)) {
      fault(
        role,
        `what ${spec.model} costs is unknown, and the plan has a limit in USD: limit tokens, or give a price (WAVESMITH_PRICES)`,
      );
    }
  }
  return faults;
}

interface UsedAgent {
  /** As declared, which may be `default`. */
  readonly role: string;
  readonly spec: AgentSpec;
}

/**
 * The agents that somebody would start: not those of scripts, of a critic that is off, of fixes
 * that are never made.
 */
function usedAgents(plan: Plan): UsedAgent[] {
  const used = plan.tasks.filter(({ run }) => run === null).map(({ agent, model }) => ({ role: agent, model }));
  if (plan.gates.critic !== false && Object.hasOwn(plan.agents, "critic")) used.push({ role: "critic", model: null });
  for (const gate of gatesWithAgents) {
    const role = gateRole(plan, gate);
    if (role !== null) used.push({ role, model: null });
  }
  if (plan.gates.maxFixRounds > 0) used.push({ role: "fixer", model: null });
  return used.flatMap(({ role, model }) => {
    const spec = agentSpecFor(plan, role);
    const declared = Object.hasOwn(plan.agents, role) ? role : "default";
    return spec === null ? [] : [{ role: declared, spec: model === null ? spec : { ...spec, model } }];
  });
}
