import { z } from "zod";
import { nameFromBrief, planTaskKey } from "../../domain/brief.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { eventSchemas } from "../../domain/events.ts";
import { networkOf } from "../../domain/network.ts";
import type { Plan } from "../../domain/plan.ts";
import { type ParseOptions, parsePlanValue } from "../../plan/parse-plan.ts";
import { didYouMean } from "../../plan/suggest.ts";
import { unsupportedFeatures } from "../../plan/unsupported.ts";
import { agentFile } from "../../plan/write-plan.ts";
import { refuseWithoutModels } from "../plan/check-models.ts";
import type { Ports } from "../port.ts";
import { defaultTenant } from "./project.ts";
import type { BuildRequest } from "./store-build.ts";

const requestSchema = eventSchemas["project/build.requested"].extend({
  /**
   * The folder that relative paths of the plan start from; only requests from this machine name
   * one.
   */
  planFolder: z.string().optional(),
  /** Somebody sits at a terminal, to be asked what agents want to do and may not. */
  interactive: z.boolean().optional(),
});

/**
 * Refuses what only a command on this machine may say: a folder of ours, a source on our disk,
 * another sandbox than the one chosen here, a secret that `eventSecrets` does not name. Whoever can
 * send an event must not get at our machine by it. Fails with `unsupported`; for a key that there
 * is not, with `usage`.
 */
export function refuseForEvents(
  data: Readonly<Record<string, unknown>>,
  { eventSecrets }: Pick<Ports, "eventSecrets">,
): void {
  const sources = [
    { name: "plan.source", source: sourceOf(data.plan) },
    { name: "source", source: sourceOf(data) },
  ];
  const said = [
    ...(data.planFolder === undefined ? [] : ["planFolder"]),
    ...(data.sandbox === undefined ? [] : ["sandbox"]),
    ...(data.interactive === undefined ? [] : ["interactive"]),
    ...sources.flatMap(({ name, source }) => [
      ...(source.path === undefined ? [] : [`${name}.path`]),
      ...(isLocal(source.git) ? [`${name}.git with a path`] : []),
    ]),
  ];
  refuseSecrets(data.plan, eventSecrets);
  if (said.length === 0) {
    refuseUnknownKeys("project/build.requested", data);
    return;
  }
  throw new WavesmithError("unsupported", `a request by event cannot say ${said.join(", ")}`, {
    remedy:
      "leave it out, bring the tree along with `source: { git: https://… }`, or use `wavesmith build` on this machine",
  });
}

const isLocal = (git: unknown): boolean =>
  typeof git === "string" && !/^(https?|ssh|git):\/\/|^[\w.-]+@[\w.-]+:/.test(git);

/** Our own keys and addresses, which no setting can allow. */
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

/** Fails with `usage`, naming each key of the data that its event does not have. */
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

/** Reads a `project/build.requested` event. Fails with `plan-invalid`, naming every fault. */
export function readBuildRequest(
  ports: Pick<Ports, "environment" | "models" | "briefAgent">,
  event: { id: string; data: unknown },
  defaultDriver: string,
): BuildRequest {
  const data = requestSchema.parse(event.data);
  if (data.planUrl !== undefined) {
    throw new WavesmithError("unsupported", "a build from planUrl is not supported yet", { remedy: "send a plan" });
  }
  if (data.brief !== undefined && data.plan !== undefined) {
    throw new WavesmithError("usage", "a request has a plan or a brief, not both", { remedy: "leave one of them out" });
  }
  const { brief: text } = data;
  const plan =
    text === undefined
      ? checkedPlan(data.plan, { baseDir: data.planFolder ?? null, env: ports.environment })
      : planOfBrief({
          text,
          project: data.project,
          source: data.source,
          agents: data.agents ?? agentsOfBrief(ports),
          budget: data.budget,
        });
  refuseWithoutModels(ports.models, plan);
  return {
    eventId: event.id,
    tenant: defaultTenant,
    project: data.project ?? plan.name,
    requestedBy: data.requestedBy ?? null,
    interactive: data.interactive ?? false,
    plan,
    brief: text === undefined ? null : { text: text.trim(), asks: data.yes !== true },
    sandboxDriver: data.sandbox ?? defaultDriver,
    network: networkOf(plan).mode,
  };
}

function checkedPlan(value: unknown, options: ParseOptions): Plan {
  const { plan, faults } = parsePlanValue(value, options);
  const refused = plan === null ? faults : unsupportedFeatures(plan);
  if (plan !== null && refused.length === 0) return plan;
  throw new WavesmithError("plan-invalid", refused.map((fault) => `${fault.path}: ${fault.message}`).join("\n"));
}

/** A brief, with what a request may say besides. */
export interface BriefWords {
  readonly text: string;
  readonly project: string | undefined;
  /** As in a plan file; a path is absolute. */
  readonly source: unknown;
  /** As in a plan file. */
  readonly agents: unknown;
  /** As `limits.budget` in a plan file; for all of the build, the making of its plan included. */
  readonly budget?: unknown;
}

const longestBrief = 100_000;
/** What was wrong with a plan is told to the planner so often. */
const returns = 2;

/**
 * The plan by which a plan is made of a brief: one task, which changes nothing, so its wave has no
 * gates. Fails with `usage` or `plan-invalid`.
 */
export function planOfBrief({ text, project, source, agents, budget }: BriefWords): Plan {
  if (text.trim() === "" || text.length > longestBrief) {
    const why = text.trim() === "" ? "the brief is empty" : `the brief is longer than ${longestBrief} characters`;
    throw new WavesmithError("usage", why, { remedy: "say in a few sentences what is to be built" });
  }
  const name = project ?? nameFromBrief(text);
  return checkedPlan(
    {
      name,
      ...(source === undefined ? {} : { source }),
      ...(budget === undefined ? {} : { limits: { budget } }),
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
 * The agent of the settings for every role, the planner with this prompt in place of ours unless it
 * is null. Fails with `environment` when there is none. The critic is named, since a review is
 * asked of a declared one alone.
 */
export function agentsOfBrief(
  { briefAgent }: Pick<Ports, "briefAgent">,
  prompt: string | null = null,
): Record<string, unknown> {
  if (briefAgent === null) {
    throw new WavesmithError(
      "environment",
      "a brief needs an agent, and neither WAVESMITH_MODEL nor WAVESMITH_AGENT is set",
      {
        remedy:
          "set WAVESMITH_MODEL=anthropic:claude-sonnet-5 with ANTHROPIC_API_KEY (or openai:… with OPENAI_API_KEY, google:… with GEMINI_API_KEY, compatible:… with WAVESMITH_COMPATIBLE_URL), or WAVESMITH_AGENT to the command of an ACP agent",
      },
    );
  }
  const agent = agentFile(briefAgent);
  return { default: agent, critic: agent, ...(prompt === null ? {} : { planner: { ...agent, prompt } }) };
}
