import { z } from "zod";
import { WavesmithError } from "../../../domain/errors.ts";
import { type BuildMetadata, eventSchemas } from "../../../domain/events/events.ts";
import { type Brief, nameFromBrief, planTaskKey } from "../../../domain/plan/brief.ts";
import type { Plan } from "../../../domain/plan/plan.ts";
import { type NetworkMode, networkOf } from "../../../domain/sandbox/network.ts";
import { unsupportedFeatures } from "../../../plan/checks/unsupported.ts";
import { didYouMean } from "../../../plan/faults/suggest.ts";
import { type ParseOptions, parsePlanValue } from "../../../plan/parse-plan.ts";
import { agentFile } from "../../../plan/write-plan.ts";
import { refuseDelivery } from "../../forge/may-deliver.ts";
import { refuseWithoutModels } from "../../plan/plan-models.ts";
import type { Ports } from "../../port.ts";
import { defaultTenant, tenantIdFor } from "./project.ts";

export interface BuildRequest {
  readonly eventId: string;
  readonly tenant: string;
  readonly project: string;
  readonly requestedBy: string | null;
  readonly metadata: BuildMetadata | null;
  /** Whether a person can answer questions. */
  readonly interactive: boolean;
  /** For a brief, the plan for drafting the real plan. */
  readonly plan: Plan;
  readonly brief: Brief | null;
  readonly sandboxDriver: string;
  /** The plan names the hosts of an allowlist. */
  readonly network: NetworkMode;
}

const repositorySchema = z.object({
  root: z.string(),
  gitDir: z.string(),
  commit: z.string().nullable(),
  branch: z.string().nullable(),
  uncommitted: z.boolean(),
});
/** A person's repository, as a request names it. */
export type RequestedRepository = z.infer<typeof repositorySchema>;

const requestSchema = eventSchemas["project/build.requested"].extend({
  /** The name of the tenant, if it is not the default one; only the server sets it. */
  tenant: z.string().optional(),
  /** The folder for the plan's relative paths; only requests from this machine may set it. */
  planFolder: z.string().optional(),
  /** Whether a person can answer agents' questions. */
  interactive: z.boolean().optional(),
  /** The repository in which the command was typed: the source of a plan that names none. */
  repository: repositorySchema.optional(),
  /** Merges a source that has moved on since the project read it. */
  updateSource: z.boolean().optional(),
});

/**
 * Refuses data that only a command on this machine may send: a local folder, a local source,
 * another sandbox driver, a secret that `eventSecrets` does not name. The sender of an event must
 * not get access to this machine. Fails with `unsupported`, or with `usage` for an unknown key.
 */
export function refuseForEvents(
  data: Readonly<Record<string, unknown>>,
  { eventSecrets }: Pick<Ports, "eventSecrets">,
): void {
  const sources = [
    { name: "plan.source", source: sourceOf(data.plan) },
    { name: "source", source: sourceOf(data) },
  ];
  const wordings = [
    ...(data.tenant === undefined ? [] : ["tenant"]),
    ...(data.planFolder === undefined ? [] : ["planFolder"]),
    ...(data.sandbox === undefined ? [] : ["sandbox"]),
    ...(data.interactive === undefined ? [] : ["interactive"]),
    ...(data.repository === undefined ? [] : ["repository"]),
    ...(data.updateSource === undefined ? [] : ["updateSource"]),
    ...sources.flatMap(({ name, source }) => [
      ...(source.path === undefined ? [] : [`${name}.path`]),
      ...(isLocal(source.git) ? [`${name}.git with a path`] : []),
    ]),
  ];
  refuseSecrets(data.plan, eventSecrets);
  if (wordings.length === 0) {
    refuseUnknownKeys("project/build.requested", data);
    return;
  }
  throw new WavesmithError("unsupported", `a request by event may not set ${wordings.join(", ")}`, {
    remedy:
      "leave it out, bring the tree along with `source: { git: https://… }`, or use `wavesmith build` on this machine",
  });
}

const isLocal = (git: unknown): boolean =>
  typeof git === "string" && !/^(https?|ssh|git):\/\/|^[\w.-]+@[\w.-]+:/.test(git);

/** Our own keys and addresses, which no setting can expose. */
const ownSettings = /^(WAVESMITH_|INNGEST_|ANTHROPIC_|OPENAI_|GEMINI_|CLAUDE_CODE_|DATABASE_URL$)/;

function refuseSecrets(plan: unknown, allowed: readonly string[]): void {
  const { secrets } = (typeof plan === "object" && plan !== null ? plan : {}) as { secrets?: unknown };
  const names = Array.isArray(secrets) ? secrets.map(String) : [];
  const refused = names.filter((name) => ownSettings.test(name) || !allowed.includes(name));
  if (refused.length === 0) return;
  const remedy = "name those that plans from events may use in WAVESMITH_EVENT_SECRETS, or use `wavesmith build`";
  throw new WavesmithError("unsupported", `a plan that an event sent may not use the secrets ${refused.join(", ")}`, {
    remedy,
  });
}

/** Fails with `usage`, naming each key that the event's schema lacks. */
export function refuseUnknownKeys(event: keyof typeof eventSchemas, data: Readonly<Record<string, unknown>>): void {
  const known = Object.keys(eventSchemas[event].shape);
  const unknown = Object.keys(data).filter((key) => !known.includes(key));
  if (unknown.length === 0) return;
  const named = unknown.map((key) => `${JSON.stringify(key)}${didYouMean(key, known)}`).join("; ");
  throw new WavesmithError("usage", `the data of ${event} has unknown keys: ${named}`, {
    remedy: `leave them out; it may have ${known.join(", ")}`,
  });
}

function sourceOf(plan: unknown): { path?: unknown; git?: unknown } {
  const { source } = (typeof plan === "object" && plan !== null ? plan : {}) as { source?: unknown };
  return typeof source === "object" && source !== null ? source : {};
}

/** An event that asks for a build. */
export interface RequestEvent {
  readonly id: string;
  readonly data: unknown;
  /** The plan in `data`, if the caller has just checked it: a large one takes half a second. */
  readonly checked?: Plan | null;
}

/** Reads a `project/build.requested` event. Fails with `plan-invalid`, naming every fault. */
export function readBuildRequest(
  ports: Pick<Ports, "environment" | "models" | "briefAgents">,
  event: RequestEvent,
  defaultDriver: string,
): BuildRequest {
  const data = requestSchema.parse(event.data);
  // The API puts the plan that it has fetched beside its address.
  if (data.planUrl !== undefined && data.plan === undefined) {
    throw new WavesmithError("unsupported", "a build from planUrl is not supported yet", { remedy: "send a plan" });
  }
  if (data.brief !== undefined && data.plan !== undefined) {
    throw new WavesmithError("usage", "a request has a plan or a brief, not both", { remedy: "leave one of them out" });
  }
  const { brief: text } = data;
  const written =
    text === undefined
      ? (event.checked ?? checkedPlan(data.plan, { baseDir: data.planFolder ?? null, env: ports.environment }))
      : planOfBrief({
          text,
          project: data.project,
          source: data.source,
          agents: data.agents ?? agentsOfBrief(ports),
          budget: data.budget,
          deliver: data.deliver,
        });
  const plan = { ...written, source: requestedSource(written.source, data) };
  refuseWithoutModels(ports.models, plan);
  refuseDelivery(plan, tenantIdFor(data.tenant ?? defaultTenant));
  return {
    eventId: event.id,
    tenant: data.tenant ?? defaultTenant,
    project: data.project ?? plan.name,
    requestedBy: data.requestedBy ?? null,
    metadata: data.metadata ?? null,
    interactive: data.interactive ?? false,
    plan,
    brief: text === undefined ? null : { text: text.trim(), asks: data.yes !== true },
    sandboxDriver: data.sandbox ?? defaultDriver,
    network: networkOf(plan).mode,
  };
}

/** The source of a plan, with what the request says about it. */
export function requestedSource(
  source: Plan["source"],
  {
    repository,
    updateSource = false,
  }: { repository?: RequestedRepository | undefined; updateSource?: boolean | undefined },
): Plan["source"] {
  const update = updateSource ? ("merge" as const) : undefined;
  if (repository !== undefined) return { kind: "repository", ...repository, update: update ?? "forward" };
  return source.kind === "empty" ? source : { ...source, update };
}

function checkedPlan(value: unknown, options: ParseOptions): Plan {
  const { plan, faults } = parsePlanValue(value, options);
  const refused = plan === null ? faults : unsupportedFeatures(plan);
  if (plan !== null && refused.length === 0) return plan;
  throw new WavesmithError("plan-invalid", refused.map((fault) => `${fault.path}: ${fault.message}`).join("\n"));
}

/** A brief, with the other fields of its request. */
export interface BriefWords {
  readonly text: string;
  readonly project: string | undefined;
  /** As in a plan file; a path is absolute. */
  readonly source: unknown;
  /** As in a plan file. */
  readonly agents: unknown;
  /** As `limits.budget` in a plan file, for the whole build including its planner. */
  readonly budget?: unknown;
  /** As in a plan file. */
  readonly deliver?: unknown;
}

const maxBriefLength = 100_000;
/** How many times a faulty plan is returned to the planner. */
const returns = 2;

/**
 * Returns the plan for drafting a plan from a brief: one task, which changes no files, so its wave
 * has no gates. Fails with `usage` or `plan-invalid`.
 */
export function planOfBrief({ text, project, source, agents, budget, deliver }: BriefWords): Plan {
  if (text.trim() === "" || text.length > maxBriefLength) {
    const why = text.trim() === "" ? "the brief is empty" : `the brief is longer than ${maxBriefLength} characters`;
    throw new WavesmithError("usage", why, { remedy: "describe in a few sentences what to build" });
  }
  const name = project ?? nameFromBrief(text);
  return checkedPlan(
    {
      name,
      ...(source === undefined ? {} : { source }),
      ...(budget === undefined ? {} : { limits: { budget } }),
      ...(deliver === undefined ? {} : { deliver }),
      agents,
      gates: { maxFixRounds: 2 },
      tasks: [
        {
          id: planTaskKey,
          title: "Make the plan",
          agent: "planner",
          instructions: text.trim(),
          changes: "optional",
          timeout: "30m",
          retries: returns,
        },
      ],
    },
    { baseDir: null, env: {} },
  );
}

/**
 * Returns the configured agents; `prompt`, if not null, replaces the planner's prompt. Declares the
 * critic, because only a declared critic reviews. Fails with `environment` without an agent for
 * every role.
 */
export function agentsOfBrief(
  { briefAgents }: Pick<Ports, "briefAgents">,
  prompt: string | null = null,
): Record<string, unknown> {
  const { default: usual } = briefAgents;
  if (usual === undefined) {
    throw new WavesmithError(
      "environment",
      "a brief needs an agent, and neither WAVESMITH_MODEL nor WAVESMITH_AGENT is set",
      {
        remedy:
          "set WAVESMITH_MODEL=anthropic:claude-sonnet-5 with ANTHROPIC_API_KEY (or openai:… with OPENAI_API_KEY, google:… with GEMINI_API_KEY, compatible:… with WAVESMITH_COMPATIBLE_URL), or WAVESMITH_AGENT to the command of an ACP agent",
      },
    );
  }
  const named = Object.entries({ critic: usual, ...briefAgents });
  const agents = Object.fromEntries(named.map(([role, agent]) => [role, agentFile(agent)]));
  return prompt === null ? agents : { ...agents, planner: { ...agentFile(briefAgents.planner ?? usual), prompt } };
}
