import { z } from "zod";
import { modelTools } from "./models.ts";
import { type PromptKind, promptKindOf } from "./prompts.ts";
import { type GateName, severitySchema } from "./status.ts";

// The plan as the rest of the house sees it: every default filled in, every duration in
// milliseconds, every `{ file: … }` read. The plan *file* (what a person writes) lives in src/plan.
// This is what the database stores, so it is JSON all through.

const agentSpecSchema = z.object({
  runtime: z.enum(["command", "acp", "builtin"]),
  /** A shell command line (runtimes command and acp). */
  command: z.string().nullable(),
  model: z.string().nullable(),
  /** A prompt of the project's own in place of ours; absent in plans stored by earlier versions. */
  prompt: z.string().nullable().optional(),
});
export type AgentSpec = z.infer<typeof agentSpecSchema>;

const acceptanceSchema = z.object({
  text: z.string(),
  /** A shell command; null: for the critic's eyes only. */
  check: z.string().nullable(),
});
export type Acceptance = z.infer<typeof acceptanceSchema>;

const planTaskSchema = z.object({
  /** The task's id in its plan. */
  key: z.string(),
  /** Position in the plan file, from 0: ties are broken by it. */
  position: z.number().int(),
  title: z.string(),
  /** The role; `default` when a `run` task names none. */
  agent: z.string(),
  dependsOn: z.array(z.string()),
  instructions: z.string().nullable(),
  run: z.string().nullable(),
  /** Declared globs; null: unknown. */
  writes: z.array(z.string()).nullable(),
  acceptance: z.array(acceptanceSchema),
  changes: z.enum(["required", "optional"]),
  mayChangeTests: z.boolean(),
  model: z.string().nullable(),
  env: z.record(z.string(), z.string()),
  timeoutMs: z.number().int(),
  retries: z.number().int(),
});
export type PlanTask = z.infer<typeof planTaskSchema>;

const commandGateSchema = z.object({
  /** Null: detected (testing) or absent (integration). */
  command: z.string().nullable(),
  timeoutMs: z.number().int(),
  /** Task key; the gate is not due until that task is joined. */
  from: z.string().nullable(),
  when: z.enum(["each", "final"]),
  /** The role whose agent adds checks once our own held; absent: none does. */
  agent: z.string().optional(),
});

export const planSchema = z.object({
  name: z.string(),
  description: z.string().nullable(),
  limits: z.object({
    tasksPerAgentPerWave: z.number().int(),
    /** Null: the number of processors, for agents that wait for models 4 times that. */
    maxParallelTasks: z.number().int().nullable(),
    budget: z.object({
      usd: z.number().nullable(),
      tokens: z.number().nullable(),
      wallClockMs: z.number().int().nullable(),
    }),
  }),
  isolation: z.enum(["worktree", "shared"]),
  onTaskFailure: z.enum(["stop", "continue"]),
  approval: z.enum(["none", "wave", "final"]),
  agents: z.record(z.string(), agentSpecSchema),
  context: z.array(z.object({ label: z.string(), text: z.string() })),
  env: z.record(z.string(), z.string()),
  /** Names only; values never enter a plan. */
  secrets: z.array(z.string()),
  services: z.record(z.string(), z.object({ command: z.string(), ready: z.string().nullable() })),
  setup: z.object({ run: z.string(), cache: z.array(z.string()) }).nullable(),
  generated: z.array(z.object({ path: z.string(), by: z.string() })),
  source: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("empty") }),
    z.object({ kind: z.literal("path"), path: z.string() }),
    z.object({ kind: z.literal("git"), url: z.string(), ref: z.string().nullable() }),
  ]),
  tasks: z.array(planTaskSchema),
  gates: z.object({
    testing: z.union([
      commandGateSchema.extend({
        minTests: z.number().int().nullable(),
        /** Tests are counted from a report outside the tree; absent: from the usual places. */
        report: z.enum(["junit", "tap", "node", "pytest"]).optional(),
      }),
      z.literal(false),
    ]),
    critic: z.union([z.object({ block: severitySchema }), z.literal(false)]),
    integration: z.union([commandGateSchema, z.literal(false)]),
    maxFixRounds: z.number().int(),
  }),
  preview: z.object({ command: z.string(), healthPath: z.string() }).nullable(),
  network: z.union([z.enum(["none", "allowlist", "open"]), z.object({ allow: z.array(z.string()) })]),
  /** Whether the plan file said anything about the network. */
  networkAsked: z.boolean(),
  /** What providers of models may do by themselves; absent: nothing. */
  modelTools: z.array(z.enum(modelTools)).optional(),
  deliver: z.object({ forge: z.enum(["local", "github"]), repo: z.string().nullable(), base: z.string().nullable() }),
  notify: z.array(z.string()),
});
export type Plan = z.infer<typeof planSchema>;

/** Roles every plan may use without declaring them. */
export const builtInRoles = [
  "default",
  "frontend",
  "backend",
  "database",
  "infrastructure",
  "testing",
  "critic",
  "integration",
  "fixer",
  "planner",
] as const;

/** The runtime settings of a role: its own, else `default`'s, else null (no runtime). */
export function agentSpecFor(plan: Pick<Plan, "agents">, role: string): AgentSpec | null {
  return (
    (Object.hasOwn(plan.agents, role) ? plan.agents[role] : undefined) ??
    (Object.hasOwn(plan.agents, "default") ? plan.agents.default : undefined) ??
    null
  );
}

/** Gates that an agent may add checks to. */
export const gatesWithAgents = ["testing", "integration"] as const;

/** The role whose agent adds checks to this gate; null when none does. */
export function gateRole({ gates }: Pick<Plan, "gates">, gate: GateName): string | null {
  const settings = gates[gate];
  return settings === false || !("agent" in settings) ? null : (settings.agent ?? null);
}

/**
 * The project's own prompt for what a role does, else null. That of `default` is for tasks alone:
 * what a fixer or a critic is asked is another question. What a role that adds to a gate is asked
 * there is of the kind `checks`.
 */
export function promptFor(
  plan: Pick<Plan, "agents" | "gates">,
  role: string,
  kind: PromptKind = promptKindOf(role),
): string | null {
  const stands = Object.hasOwn(plan.agents, role) ? role : "default";
  const gateRoles = gatesWithAgents.map((gate) => gateRole(plan, gate));
  if (promptKindOf(stands, gateRoles) !== kind) return null;
  return (Object.hasOwn(plan.agents, stands) ? plan.agents[stands]?.prompt : null) ?? null;
}

/**
 * A fault of a plan file: where it is and what is wrong. Faults are data; a plan with faults starts
 * nothing.
 */
export interface PlanFault {
  /** A stable word for tests and tools, such as `cycle`. */
  readonly code: string;
  /** Path in the plan, such as `tasks[2].dependsOn[0]`; empty for the file itself. */
  readonly path: string;
  /** 1-based; null when the plan did not come from text. */
  readonly line: number | null;
  readonly message: string;
}
