import { z } from "zod";
import { createPolicySchema, forgeNames, mergePolicySchema, requestScopeSchema } from "../forge.ts";
import { modelTools } from "../models.ts";
import { type GateName, severitySchema } from "../status.ts";
import { type PromptKind, promptKindOf } from "./prompts.ts";

// The normalised plan, which the database stores as JSON: every default is filled in, every
// duration is in milliseconds, every `{ file: … }` is read. src/plan handles the plan file that
// people write.

/** How many images instructions may have, and which files they are. */
export const maxImages = 10;
export const imagePattern = /\.(png|jpe?g|gif|webp)$/i;

/** How hard a model thinks. */
export const agentEfforts = ["low", "medium", "high", "max"] as const;

const agentSpecSchema = z.object({
  runtime: z.enum(["command", "acp", "builtin"]),
  /** A shell command line (runtimes command and acp). */
  command: z.string().nullable(),
  model: z.string().nullable(),
  /** The project's own prompt, replacing ours; absent in plans stored by earlier versions. */
  prompt: z.string().nullable().optional(),
  /** Absent: the model's own. */
  effort: z.enum(agentEfforts).nullable().optional(),
  /** MCP servers, started by their commands in the sandbox. */
  mcp: z.array(z.object({ name: z.string(), command: z.string() })).optional(),
  /** Folders of the repository with a SKILL.md each. */
  skills: z.array(z.string()).optional(),
});
export type AgentSpec = z.infer<typeof agentSpecSchema>;

const acceptanceSchema = z.object({
  text: z.string(),
  /** A shell command; null: only the critic reads this entry. */
  check: z.string().nullable(),
});
export type Acceptance = z.infer<typeof acceptanceSchema>;

/**
 * How a later build of the project treats a source that has moved on: `forward` starts from it if
 * it contains everything the project built, and `merge` merges it otherwise. Absent: it is ignored.
 */
const sourceUpdate = z.enum(["forward", "merge"]).optional();

const planTaskSchema = z.object({
  /** The task's id in its plan. */
  key: z.string(),
  /** Position in the plan file, from 0; breaks ties. */
  position: z.number().int(),
  title: z.string(),
  /** The role; `default` when a `run` task names none. */
  agent: z.string(),
  dependsOn: z.array(z.string()),
  instructions: z.string().nullable(),
  /** Images of the repository that belong to the instructions; absent: none. */
  images: z.array(z.string()).optional(),
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
  /** A task's key; the gate is not due until that task is joined. */
  from: z.string().nullable(),
  when: z.enum(["each", "final"]),
  /** The role whose agent adds checks once the gate's own have passed; absent: none. */
  agent: z.string().optional(),
});

export const planSchema = z.object({
  name: z.string(),
  description: z.string().nullable(),
  limits: z.object({
    tasksPerAgentPerWave: z.number().int(),
    /** Null: the number of processors, or four times that for agents that wait for models. */
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
  /** Names only; a plan never contains values. */
  secrets: z.array(z.string()),
  services: z.record(z.string(), z.object({ command: z.string(), ready: z.string().nullable() })),
  setup: z.object({ run: z.string(), cache: z.array(z.string()) }).nullable(),
  generated: z.array(z.object({ path: z.string(), by: z.string() })),
  source: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("empty") }),
    z.object({ kind: z.literal("path"), path: z.string(), update: sourceUpdate }),
    z.object({ kind: z.literal("git"), url: z.string(), ref: z.string().nullable(), update: sourceUpdate }),
    /** A person's repository, which also receives the result. A command names it, no plan file. */
    z.object({
      kind: z.literal("repository"),
      /** The top of its working tree. */
      root: z.string(),
      gitDir: z.string(),
      /** Where the build begins; null: the repository has no commit. */
      commit: z.string().nullable(),
      /** The branch that was checked out; null: a detached HEAD. */
      branch: z.string().nullable(),
      /** The commit holds uncommitted work on top of the branch. */
      uncommitted: z.boolean(),
      update: sourceUpdate,
    }),
  ]),
  tasks: z.array(planTaskSchema),
  gates: z.object({
    testing: z.union([
      commandGateSchema.extend({
        minTests: z.number().int().nullable(),
        /** Format of the test report outside the tree; absent: looked for in the usual places. */
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
  /** Whether the plan file mentions the network. */
  networkAsked: z.boolean(),
  /** Tools that model providers may use; absent: none. */
  modelTools: z.array(z.enum(modelTools)).optional(),
  deliver: z.object({
    forge: z.enum(forgeNames),
    repo: z.string().nullable(),
    base: z.string().nullable(),
    /** Absent in plans from before there was a choice. */
    pullRequests: requestScopeSchema.optional(),
    merge: mergePolicySchema.optional(),
    create: createPolicySchema.optional(),
    /** The issue of the repository that the build answers. */
    issue: z.number().int().optional(),
    /** The pull request of the repository to whose branch the work goes. */
    request: z.number().int().optional(),
  }),
  notify: z.array(z.string()),
});
export type Plan = z.infer<typeof planSchema>;
/** A source that a command found, not the plan. */
export type RepositorySource = Extract<Plan["source"], { kind: "repository" }>;

/** Roles that a plan may use without declaring them. */
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

/** Returns a role's runtime settings: its own, otherwise those of `default`, otherwise null. */
export function agentSpecFor(plan: Pick<Plan, "agents">, role: string): AgentSpec | null {
  return (
    (Object.hasOwn(plan.agents, role) ? plan.agents[role] : undefined) ??
    (Object.hasOwn(plan.agents, "default") ? plan.agents.default : undefined) ??
    null
  );
}

/** Whether a failed gate or a rejection leads to a fix round. */
export const hasFixer = (plan: Pick<Plan, "agents" | "gates">): boolean =>
  agentSpecFor(plan, "fixer") !== null && plan.gates.maxFixRounds > 0;

/** Gates to which an agent may add checks. */
export const gatesWithAgents = ["testing", "integration"] as const;

/** Returns the role whose agent adds checks to this gate; null when there is none. */
export function gateRole({ gates }: Pick<Plan, "gates">, gate: GateName): string | null {
  const settings = gates[gate];
  return settings === false || !("agent" in settings) ? null : (settings.agent ?? null);
}

/**
 * Returns the project's own prompt for a role, or null. The prompt of `default` applies only to
 * tasks, because fixers and critics do a different job. A gate's agent uses a prompt of kind
 * `checks`.
 */
export function promptFor(
  plan: Pick<Plan, "agents" | "gates">,
  role: string,
  kind: PromptKind = promptKindOf(role),
): string | null {
  const ownRole = Object.hasOwn(plan.agents, role) ? role : "default";
  const gateRoles = gatesWithAgents.map((gate) => gateRole(plan, gate));
  if (promptKindOf(ownRole, gateRoles) !== kind) return null;
  return (Object.hasOwn(plan.agents, ownRole) ? plan.agents[ownRole]?.prompt : null) ?? null;
}

/** A fault in a plan file. Faults are data, not errors; a plan with faults starts nothing. */
export interface PlanFault {
  /** A stable word for tests and tools, such as `cycle`. */
  readonly code: string;
  /** Path in the plan, such as `tasks[2].dependsOn[0]`; empty for the file itself. */
  readonly path: string;
  /** Counts from 1; null when the plan did not come from text. */
  readonly line: number | null;
  readonly message: string;
}
