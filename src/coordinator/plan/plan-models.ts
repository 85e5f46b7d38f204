import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { isProviderName, parseModel } from "../../domain/models.ts";
import {
  type AgentSpec,
  agentSpecFor,
  gateRole,
  gatesWithAgents,
  type Plan,
  type PlanFault,
} from "../../domain/plan/plan.ts";
import type { Models } from "../../models/port.ts";

/**
 * Refuses a plan whose agents could not work, before anything starts. Fails with `plan-invalid` if
 * the plan's models are faulty and with `environment` if a key is missing. Only roles that would be
 * used count.
 */
export function refuseWithoutModels(models: Pick<Models, "lacks" | "isPriced">, plan: Plan): void {
  const faults = modelFaults(models, plan);
  if (faults.length > 0) {
    throw new WavesmithError("plan-invalid", faults.map(({ path, message }) => `${path}: ${message}`).join("\n"), {
      remedy: "fix the plan's agents, or its budget",
    });
  }
  const [missing] = missingKeys(models, plan).filter(({ runtime }) => runtime === "builtin");
  if (missing === undefined) return;
  const { role, model, lack, remedy } = missing;
  throw new WavesmithError("environment", `the role ${role} cannot use ${model}: ${lack}`, { remedy });
}

export interface MissingKey {
  readonly role: string;
  readonly runtime: AgentSpec["runtime"];
  readonly model: string;
  readonly lack: string;
  readonly remedy: string;
}

/** Returns the models of a plan for which this machine has no key, each role once. */
export function missingKeys(models: Pick<Models, "lacks">, plan: Plan): MissingKey[] {
  const missing = usedAgents(plan).flatMap(({ role, spec: { runtime, model } }): MissingKey[] => {
    if (runtime === "command" || model == null) return [];
    const lack = models.lacks(model);
    return lack === null ? [] : [{ role, runtime, model, lack, remedy: `set ${keysOf(model)}` }];
  });
  return missing.filter(({ role }, index) => missing.findIndex((other) => other.role === role) === index);
}

function keysOf(model: string): string {
  if (model.startsWith("openai:")) return "OPENAI_API_KEY";
  if (model.startsWith("google:")) return "GEMINI_API_KEY";
  if (model.startsWith("compatible:")) return "WAVESMITH_COMPATIBLE_URL";
  if (model.startsWith("compatible-")) return "WAVESMITH_COMPATIBLE_SERVERS";
  return "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN";
}

/** Returns the faults of the models that a plan names. */
export function modelFaults(models: Pick<Models, "isPriced">, plan: Plan): PlanFault[] {
  const faults: PlanFault[] = [];
  const fault = (role: string, message: string): void => {
    const path = `agents.${role}.model`;
    // Several roles may use `default`, so report its fault once.
    const isTold = faults.some((known) => known.path === path && known.message === message);
    if (!isTold) faults.push({ code: "model", path, line: null, message });
  };
  for (const { role, spec } of usedAgents(plan)) {
    const { provider, model } = parseModel(spec.model ?? "");
    const isNamed = isProviderName(provider) && model !== "";
    if (spec.runtime === "builtin" && !isNamed) {
      fault(
        role,
        `${spec.model} is not a model: write provider:model, such as anthropic:claude-sonnet-5, openai:gpt-6-sol, google:gemini-3.8-flash or compatible:llama3.3`,
      );
    } else if (plan.limits.budget.usd !== null && isNamed && !models.isPriced(present(spec.model, "its model"))) {
      fault(
        role,
        `what ${spec.model} costs is unknown, and the plan has a limit in USD: limit tokens, or give a price (WAVESMITH_PRICES)`,
      );
    }
  }
  return faults;
}

interface UsedAgent {
  /** The role as declared, which may be `default`. */
  readonly role: string;
  readonly spec: AgentSpec;
}

/** Returns the agents that the plan would use: none for scripts, an unused critic or fixer. */
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
