import { z } from "zod";
import { attemptOutcomeSchema, gateNameSchema } from "../status.ts";
import { activitySchema } from "./activity.ts";
import { checkConclusionSchema, commandVerbs } from "./outside.ts";

// All events. Inngest, `--json` and the live stream use the same names.

/** The largest metadata of a build, as JSON in UTF-8. */
const metadataLimitBytes = 16 * 1024;
const metadataLimitDepth = 64;

/** Data that a request wants on every event of its build. We never read it. */
const metadataSchema = z
  .record(z.string(), z.unknown(), { error: "must be a JSON object" })
  .refine((metadata) => isShallow(metadata, metadataLimitDepth), {
    error: `must not be nested more than ${metadataLimitDepth} levels deep`,
    abort: true,
  })
  .refine((metadata) => Buffer.byteLength(JSON.stringify(metadata)) <= metadataLimitBytes, {
    error: `must be at most ${metadataLimitBytes / 1024} KB of JSON`,
    abort: true,
  })
  .refine((metadata) => !/(?<!\\)(\\\\)*\\u(0000|d[89a-f]..)/.test(JSON.stringify(metadata)), {
    error: "contains a NUL or half a character",
  });
export type BuildMetadata = z.infer<typeof metadataSchema>;

/** Returns the parts of a build's request that every event of the build carries. */
export const requestFacts = ({
  requestedBy,
  metadata,
}: {
  readonly requestedBy: string | null;
  readonly metadata: BuildMetadata | null;
}): { requestedBy?: string; metadata?: BuildMetadata } => ({
  ...(requestedBy === null ? {} : { requestedBy }),
  ...(metadata === null ? {} : { metadata }),
});

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1));
}

const buildBase = z.object({
  tenantId: z.string(),
  projectId: z.string(),
  buildId: z.string(),
  requestedBy: z.string().optional(),
  metadata: metadataSchema.optional(),
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
/** `buildId` names the build that was running, if any. */
const sandbox = buildBase.partial({ buildId: true }).extend({ sandboxId: z.string(), driver: z.string() });
const sandboxEnd = sandbox.extend({ reason: z.string() });

/** An action on a forge, or a report of a CI system; `by` is the name of the account there. */
const outside = buildBase.extend({
  /** `owner/name` on a forge, or the project's name. */
  repository: z.string(),
  /** Identifies it where it came from; a second event about it changes nothing. */
  origin: z.string(),
});
const onRequest = outside.extend({ number: z.number().int(), by: z.string() });
/** `buildId` names the build that it is about, if any. */
const onRepository = outside.partial({ buildId: true }).extend({ project: z.string(), by: z.string() });

/** A periodic chore; `minute` is when it was due, in minutes since 1970. */
const chore = z.object({ minute: z.number().int() });

export const eventSchemas = {
  "project/build.requested": z.object({
    tenantId: z.string().optional(),
    projectId: z.string().optional(),
    project: z.string().optional(),
    requestedBy: z.string().optional(),
    metadata: metadataSchema.optional(),
    plan: z.unknown().optional(),
    planUrl: z.string().optional(),
    brief: z.string().optional(),
    source: z.unknown().optional(),
    /** With a brief: the agents of its plan, as in a plan file. */
    agents: z.unknown().optional(),
    /** With a brief: the whole build's budget, planning included, as `limits.budget` in a plan. */
    budget: z.unknown().optional(),
    /** With a brief: where its work goes, as `deliver` in a plan. */
    deliver: z.unknown().optional(),
    /** With a brief: whether the drafted plan runs without a person's approval. */
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
  /** An agent's activity while it works. For readers only: it is never sent to the engine. */
  "agent/activity.reported": wave.extend({
    jobKey: z.string(),
    role: z.string(),
    taskKey: z.string().nullable(),
    activity: activitySchema,
  }),
  "agent/task.completed": wave.extend({ taskId: z.string(), taskKey: z.string(), commit: z.string() }),
  "agent/task.failed": wave.extend({
    taskId: z.string(),
    taskKey: z.string(),
    outcome: attemptOutcomeSchema,
    reason: z.string(),
  }),
  /** A person commented on a build's work. */
  "project/wave.commented": buildBase.extend({
    findingId: z.number().int(),
    /** Null: the next wave gets it. */
    waveId: z.string().nullable(),
    taskKey: z.string().nullable(),
    file: z.string().nullable(),
    line: z.number().int().nullable(),
    by: z.string(),
    text: z.string(),
  }),
  /** An agent may not do something without a person's answer. */
  "agent/question.asked": buildBase.extend({
    questionId: z.number().int(),
    taskKey: z.string().nullable(),
    role: z.string(),
    text: z.string(),
    deadlineAt: z.string(),
  }),
  /** A schedule's builds failed too often; `buildId` is the last one. */
  "project/schedule.paused": buildBase.extend({ scheduleId: z.string(), name: z.string(), reason: z.string() }),
  /** A person said something to a task's agent. */
  "agent/task.told": buildBase.extend({
    taskId: z.string(),
    taskKey: z.string(),
    messageId: z.number().int(),
    by: z.string(),
    text: z.string(),
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
  "project/build.rollback-undone": buildBase.extend({ sha: z.string().nullable() }),
  "agent/preview.deploy": wave.extend({ sha: z.string() }),
  /** `key` is `build`, or `wave-N` when each wave has a request. */
  "agent/pull-request.open": wave.extend({ sha: z.string(), key: z.string(), epoch: z.number().int() }),
  "sandbox/created": sandbox,
  "sandbox/started": sandbox,
  "sandbox/stopped": sandboxEnd,
  "sandbox/lost": sandboxEnd,
  "sandbox/restored": sandbox.extend({ snapshotId: z.string() }),
  "sandbox/check.due": chore,
  "sandbox/idle.due": chore,
  "sandbox/reconcile.due": chore,
  "snapshot/retention.due": chore,
  "ci/check.completed": outside.extend({
    branch: z.string().nullable(),
    /** Null: the latest commit of the branch. */
    sha: z.string().nullable(),
    name: z.string(),
    conclusion: checkConclusionSchema,
    url: z.string().nullable(),
    /** The end of its output, with its failures; null: it is fetched, or there is none. */
    log: z.string().nullable(),
    /** The forge's id of the job whose log can be fetched. */
    jobId: z.number().int().nullable(),
    completedAt: z.string(),
  }),
  "ci/suite.completed": outside.extend({
    branch: z.string().nullable(),
    sha: z.string(),
    /** The forge's id of the suite, whose checks are read. */
    suiteId: z.number().int(),
    name: z.string(),
    conclusion: checkConclusionSchema,
    url: z.string().nullable(),
    completedAt: z.string(),
  }),
  "forge/comment.made": onRequest.extend({
    text: z.string(),
    file: z.string().nullable(),
    line: z.number().int().nullable(),
    url: z.string().nullable(),
  }),
  "forge/thread.settled": onRequest.extend({ comments: z.array(z.string()), resolved: z.boolean() }),
  "forge/review.submitted": onRequest.extend({
    state: z.enum(["approved", "changes_requested"]),
    text: z.string(),
    sha: z.string().nullable(),
  }),
  "forge/request.closed": onRequest.extend({ merged: z.boolean() }),
  "forge/command.given": onRepository.extend({
    number: z.number().int(),
    verb: z.enum(commandVerbs),
    text: z.string(),
  }),
  "forge/issue.ready": onRepository.extend({ number: z.number().int(), title: z.string(), text: z.string() }),
  "forge/label.added": onRepository.extend({ number: z.number().int(), label: z.string() }),
  "forge/branch.pushed": onRepository.extend({ branch: z.string(), sha: z.string() }),
} as const;

type Schemas = typeof eventSchemas;
/** The name of a role's event; its schema is that of `agent/execution.*`. */
type ExecutionName = `agent/execution.${string}`;
/** The name of an event, as it is sent. */
export type EventName = Exclude<keyof Schemas, "agent/execution.*"> | ExecutionName;

/** The data of an event, given its name. */
export type EventData<Name extends EventName> = Name extends ExecutionName
  ? z.infer<Schemas["agent/execution.*"]>
  : Name extends keyof Schemas
    ? z.infer<Schemas[Name]>
    : never;

/** An event with its data. */
export interface DomainEvent<Name extends EventName = EventName> {
  readonly name: Name;
  /** `<event>:<subject>:<epoch>` (W13). */
  readonly id: string;
  readonly data: EventData<Name>;
}

type NameOf<Base, Name extends EventName = EventName> = Name extends EventName
  ? EventData<Name> extends Base
    ? Name
    : never
  : never;
type BuildBase = z.infer<typeof buildBase>;
type SandboxBase = z.infer<typeof sandbox>;
type OutsideBase = z.infer<typeof onRepository>;
/** The names of events about a build, and of those about a sandbox. */
export type BuildEventName = NameOf<BuildBase>;
export type SandboxEventName = NameOf<SandboxBase>;
/** The names of events about a repository that may have no build yet. */
export type RepositoryEventName = Exclude<NameOf<OutsideBase>, BuildEventName>;
/** The data of such an event without the fields that all of them share. */
export type BuildEventFacts<Name extends BuildEventName> = Omit<EventData<Name>, keyof BuildBase>;
export type SandboxEventFacts<Name extends SandboxEventName> = Omit<EventData<Name>, keyof SandboxBase>;

/** The only maker of event ids. */
export const makeEvent = <Name extends EventName>(
  name: Name,
  subject: string,
  epoch: number,
  data: EventData<Name>,
): DomainEvent<Name> => ({ name, id: `${name}:${subject}:${epoch}`, data });

/** Returns the schema of an event; undefined if there is no such event. */
export function schemaForEvent(name: string): z.ZodType | undefined {
  if (name.startsWith("agent/execution.")) return eventSchemas["agent/execution.*"];
  return Object.hasOwn(eventSchemas, name) ? eventSchemas[name as keyof Schemas] : undefined;
}
