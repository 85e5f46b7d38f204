import { z } from "zod";
import { type AgentSpec, agentEfforts } from "../domain/plan/plan.ts";

const roleAgent = z
  .strictObject({
    runtime: z.enum(["command", "acp", "builtin"]),
    command: z.string().min(1).optional(),
    model: z
      .string()
      .regex(/^[a-z0-9-]+:./, "must be provider:model")
      .optional(),
    effort: z.enum(agentEfforts).optional(),
  })
  .refine(({ runtime, command }) => (command !== undefined) === (runtime !== "builtin"), {
    message: "the runtimes command and acp need a command, and builtin has none",
  })
  .refine(({ runtime, model }) => runtime !== "builtin" || model !== undefined, {
    message: "the runtime builtin needs a model",
  });

/** The agents of roles, as the setting has them. */
const rolesSchema = z.record(z.string().regex(/^[a-z][a-z0-9-]*$/, "must be the name of a role"), roleAgent);

/** A JSON object of agents by their roles, as text. */
export const rolesText = z.string().superRefine((text, context) => {
  const { error } = rolesSchema.safeParse(jsonIn(text));
  for (const { path, message } of error?.issues.slice(0, 5) ?? [])
    context.addIssue({ code: "custom", message: [path.join("."), message].filter((part) => part !== "").join(": ") });
});

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // The schema reports that it is not an object.
  }
}

interface AgentSettings {
  readonly WAVESMITH_AGENT?: string | undefined;
  readonly WAVESMITH_MODEL?: string | undefined;
  readonly WAVESMITH_ROLES?: string | undefined;
}

/** Returns the agents of builds from a brief by their roles; empty if no setting names one. */
export function briefAgents(data: AgentSettings): Readonly<Record<string, AgentSpec>> {
  const { WAVESMITH_AGENT: command, WAVESMITH_MODEL: model, WAVESMITH_ROLES: text } = data;
  const none = { command: null, model: null, prompt: null };
  const roles = text === undefined ? {} : rolesSchema.parse(jsonIn(text));
  const own = Object.fromEntries(
    Object.entries(roles).map(([role, { runtime, effort = null, ...agent }]) => [
      role,
      { runtime, effort, prompt: null, command: agent.command ?? null, model: agent.model ?? null },
    ]),
  );
  if (command !== undefined) return { default: { ...none, runtime: "acp", command, model: model ?? null }, ...own };
  return model === undefined ? own : { default: { ...none, runtime: "builtin", model }, ...own };
}
