import { WavesmithError } from "../../domain/errors.ts";
import type { AgentSpec, Plan } from "../../domain/plan/plan.ts";

/** Another model or agent for the remaining work. */
export interface OtherAgent {
  /** `provider:model`. */
  readonly model?: string | undefined;
  /** The command of an ACP agent, or `builtin`. */
  readonly agent?: string | undefined;
}

export const isOther = ({ model, agent }: OtherAgent): boolean => model !== undefined || agent !== undefined;

/**
 * Returns the plan with another model or agent for every role that uses models. Commands and
 * scripts stay. Fails with `usage` if no role uses models.
 */
export function withOtherAgent(plan: Plan, other: OtherAgent): Plan {
  if (!isOther(other)) return plan;
  const agents = Object.entries(plan.agents);
  if (!agents.some(([, spec]) => spec.runtime !== "command")) {
    throw new WavesmithError("usage", "no role of this plan has the runtime acp or builtin", {
      remedy: "change its agents in the plan, then: wavesmith resume BUILD --plan EDITED",
    });
  }
  const changed = agents.map(([role, spec]) => [role, spec.runtime === "command" ? spec : otherSpec(spec, other)]);
  const tasks = plan.tasks.map((task) => (other.model === undefined ? task : { ...task, model: null }));
  return { ...plan, agents: Object.fromEntries(changed), tasks };
}

function otherSpec(spec: AgentSpec, { model = spec.model ?? undefined, agent }: OtherAgent): AgentSpec {
  const chosen = { ...spec, model: model ?? null };
  if (agent === undefined) return chosen;
  if (agent === "builtin") return { ...chosen, runtime: "builtin", command: null };
  return { ...chosen, runtime: "acp", command: agent };
}
