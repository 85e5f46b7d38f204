import { z } from "zod";
import { attemptOutcomeSchema, gateNameSchema } from "./status.ts";

// One table of events (contract 3). The same names serve Inngest, `--json` and the live stream.

const buildBase = z.object({
  tenantId: z.string(),
  projectId: z.string(),
  buildId: z.string(),
  requestedBy: z.string().optional(),
});
const wave = buildBase.extend({ waveNumber: z.number().int() });
const gateRequest = wave.extend({
  gateRunId: z.string(),
  gate: gateNameSchema,
  sha: z.string(),
  fence: z.number().int(),
});
const attemptRef = wave.extend({
  attemptId: z.string(),
  taskId: z.string().nullable(),
  taskKey: z.string().nullable(),
  attempt: z.number().int(),
  fence: z.number().int(),
});
/** `buildId`: of the build that was under way, if one was. */
const sandbox = buildBase.partial({ buildId: true }).extend({ sandboxId: z.string(), driver: z.string() });
const sandboxEnd = sandbox.extend({ reason: z.string() });

/** What comes round by the clock; the minute since 1970 in which it was due. */
const chore = z.object({ minute: z.number().int() });

export const eventSchemas = {
  "project/build.requested": z.object({
    tenantId: z.string().optional(),
    projectId: z.string().optional(),
    project: z.string().optional(),
    requestedBy: z.string().optional(),
    plan: z.unknown().optional(),
    planUrl: z.string().optional(),
    brief: z.string().optional(),
    source: z.unknown().optional(),
    /** With a brief: the agents of its plan, as in a plan file. */
    agents: z.unknown().optional(),
    /**
     * With a brief: what all of the build may take, the making of its plan included, as
     * `limits.budget` of a plan.
     */
    budget: z.unknown().optional(),
    /** With a brief: the plan that is made of it runs without waiting for a person. */
    yes: z.boolean().optional(),
    sandbox: z.string().optional(),
  }),
  "project/build.completed": buildBase.extend({ head: z.string() }),
  "project/build.failed": buildBase.extend({ reason: z.string() }),
  "project/build.cancelled": buildBase,
  "project/build.cancel-requested": buildBase.extend({ reason: z.string().optional() }),
  "agent/wave.start": wave,
  "agent/wave.complete": wave,
  "agent/execution.*": attemptRef.extend({ role: z.string() }),
  "agent/attempt.finished": attemptRef.extend({
    kind: z.enum(["task", "fix", "generate"]),
    jobKey: z.string(),
  }),
  "agent/task.completed": wave.extend({ taskId: z.string(), taskKey: z.string(), commit: z.string() }),
  "agent/task.failed": wave.extend({
    taskId: z.string(),
    taskKey: z.string(),
    outcome: attemptOutcomeSchema,
    reason: z.string(),
  }),
  "agent/quality.testing": gateRequest,
  "agent/quality.critic": gateRequest,
  "agent/quality.integration": gateRequest,
  "agent/quality.fix": attemptRef.extend({ gate: z.string(), round: z.number().int() }),
  "agent/gate.finished": gateRequest.extend({ jobKey: z.string().nullable() }),
  "project/wave.passed": wave.extend({ sha: z.string() }),
  "project/wave.blocked": wave.extend({ reason: z.string() }),
  "project/wave.approved": wave.extend({ by: z.string().optional(), sha: z.string().optional() }),
  "project/wave.rejected": wave.extend({ by: z.string().optional(), reason: z.string(), sha: z.string().optional() }),
  "project/approval.requested": wave,
  "project/build.rolled-back": wave.extend({ sha: z.string() }),
  "agent/preview.deploy": wave.extend({ sha: z.string() }),
  "agent/pull-request.open": wave.extend({ sha: z.string() }),
  "sandbox/created": sandbox,
  "sandbox/started": sandbox,
  "sandbox/stopped": sandboxEnd,
  "sandbox/lost": sandboxEnd,
  "sandbox/restored": sandbox.extend({ snapshotId: z.string() }),
  "sandbox/check.due": chore,
  "sandbox/idle.due": chore,
  "sandbox/reconcile.due": chore,
  "snapshot/retention.due": chore,
  "ci/check.completed": z.object({
    projectId: z.string().optional(),
    sha: z.string(),
    name: z.string(),
    conclusion: z.string(),
  }),
} as const;

export type EventName = keyof typeof eventSchemas;
/** `agent/execution.backend` stands under the pattern `agent/execution.*`. */
type ExecutionName = `agent/execution.${string}`;

/** The data of an event, given its name. */
export type EventData<Name extends EventName | ExecutionName> = Name extends ExecutionName
  ? z.infer<(typeof eventSchemas)["agent/execution.*"]>
  : Name extends EventName
    ? z.infer<(typeof eventSchemas)[Name]>
    : never;

type BuildBase = z.infer<typeof buildBase>;
/** The names of the events of a build. */
export type BuildEventName =
  | ExecutionName
  | { [Name in EventName]: EventData<Name> extends BuildBase ? Name : never }[EventName];
/** What the data of a build's event say besides whose build it is. */
export type BuildEventFacts<Name extends BuildEventName> = Omit<EventData<Name>, keyof BuildBase>;

/** The schema for a concrete event name; undefined when there is no such event. */
export function schemaForEvent(name: string): z.ZodType | undefined {
  if (name.startsWith("agent/execution.")) return eventSchemas["agent/execution.*"];
  return Object.hasOwn(eventSchemas, name) ? eventSchemas[name as EventName] : undefined;
}

/** A fact or a request that a transaction wrote to the outbox. */
export interface DomainEvent {
  readonly name: string;
  /** `<event>:<subject>:<epoch>` (W13). */
  readonly id: string;
  readonly data: Record<string, unknown>;
}
