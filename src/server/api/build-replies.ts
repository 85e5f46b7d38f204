import { z } from "@hono/zod-openapi";
import { checkStates } from "../../domain/forge.ts";
import { evidenceSchema } from "../../domain/gate/finding.ts";
import { buildStatusSchema, severitySchema } from "../../domain/status.ts";

// A build and its parts, as replies show them; src/api/ makes them.

export const moment = z.string().nullable();
// Schemas of the domain know nothing of OpenAPI.
export const buildStatus = z.enum(buildStatusSchema.options);
const severity = z.enum(severitySchema.options);

const spentSum = {
  tokens: z.number(),
  /** Null if the price of any call is unknown; `knownUsd` then sums the others. */
  usd: z.number().nullable(),
  knownUsd: z.number(),
  unpricedCalls: z.number(),
};
export const spentSumReply = z.object(spentSum).openapi("SpentSum");
export const spentReply = z.object({ calls: z.number(), ...spentSum }).openapi("Spent");

const gateFindingReply = z
  .object({
    rule: z.string(),
    severity,
    message: z.string(),
    file: z.string().nullable(),
    line: z.number().nullable(),
  })
  .openapi("GateFinding");

const questionReply = z
  .object({
    id: z.number(),
    from: z.string(),
    text: z.string(),
    reason: z.string(),
    options: z.array(z.object({ name: z.string(), kind: z.string() })),
    askedAt: z.string(),
    deadlineAt: z.string(),
  })
  .openapi("OpenQuestion");

const waveReply = z
  .looseObject({
    number: z.number(),
    status: z.string(),
    gates: z.array(z.object({ name: z.string(), verdict: z.string(), rounds: z.number() })),
    commit: z.string().nullable(),
    findings: z.array(gateFindingReply),
  })
  .openapi("Wave");

const taskStateReply = z
  .looseObject({
    id: z.string(),
    agent: z.string(),
    status: z.string(),
    wave: z.number().nullable(),
    attempts: z.number(),
    spent: spentReply,
    reason: z.string().nullable(),
    waitsFor: z.string().nullable(),
  })
  .openapi("TaskState");

const pullRequestReply = z
  .object({
    repo: z.string(),
    branch: z.string(),
    // Null until the repository was found.
    base: z.string().nullable(),
    number: z.number().nullable(),
    url: z.string().nullable(),
    wave: z.number(),
    commit: z.string(),
    status: z.string(),
    merge: z.string(),
    mergeCommit: z.string().nullable(),
    checks: z.array(z.object({ name: z.string(), state: z.enum(checkStates), url: z.string().nullable() })),
    commits: z.array(z.object({ sha: z.string(), title: z.string(), author: z.string(), at: z.string() })),
    problem: z.string().nullable(),
    remedy: z.string().nullable(),
  })
  .openapi("PullRequest");

export const buildReply = z
  .looseObject({
    id: z.string(),
    buildId: z.string(),
    project: z.string(),
    projectId: z.string(),
    brief: z.string().optional(),
    status: buildStatus,
    phase: z.string(),
    reason: z.string().nullable(),
    questions: z.array(questionReply),
    waitsForSandbox: z.object({ reason: z.string(), remedy: z.string() }).nullable(),
    sandboxTrouble: z.string().nullable(),
    createdAt: z.string(),
    startedAt: moment,
    endedAt: moment,
    sandbox: z.string(),
    spent: spentReply,
    budget: z.object({ tokens: z.number().nullable(), usd: z.number().nullable() }),
    waves: z.array(waveReply),
    tasks: z.array(taskStateReply),
    preview: z.object({ wave: z.number(), status: z.string(), url: z.string().nullable() }).nullable(),
    pullRequests: z.array(pullRequestReply).optional(),
    repository: z.string(),
    head: z.string().nullable(),
  })
  .openapi("Build");

const evidenceReply = z
  .looseObject(evidenceSchema.omit({ firstLook: true, added: true }).shape)
  .openapi("GateEvidence");

export const gateRunReply = z
  .object({
    id: z.string(),
    wave: z.number(),
    gate: z.string(),
    round: z.number(),
    sha: z.string(),
    status: z.string(),
    verdict: z.string().nullable(),
    reason: z.string().nullable(),
    // `nullable()` would change the named schema.
    evidence: z.union([evidenceReply, z.null()]),
    findings: z.array(gateFindingReply),
    createdAt: z.string(),
    endedAt: moment,
  })
  .openapi("GateRun");

export const planReply = z
  .looseObject({
    name: z.string(),
    description: z.string().nullable(),
    approval: z.string(),
    tasks: z.array(
      z
        .looseObject({
          key: z.string(),
          title: z.string(),
          agent: z.string(),
          dependsOn: z.array(z.string()),
          instructions: z.string().nullable(),
          run: z.string().nullable(),
          writes: z.array(z.string()).nullable(),
          acceptance: z.array(z.object({ text: z.string(), check: z.string().nullable() })),
          timeoutMs: z.number(),
          retries: z.number(),
        })
        .openapi("PlanTask"),
    ),
  })
  .openapi("Plan");

/** An item that waits for a person. */
export const inboxReply = z
  .object({
    kind: z.enum(["build", "question", "failed"]),
    buildId: z.string(),
    project: z.string(),
    phase: z.string(),
    wave: z.number().nullable(),
    /** The decision that a waiting build needs; null if it only has to be resumed. */
    decision: z.enum(["wave", "plan"]).nullable(),
    /** The gate that blocks its last wave, with the first thing it found. */
    failedGate: z.object({ id: z.string(), gate: z.string(), finding: z.string().nullable() }).nullable(),
    since: z.string(),
    reason: z.string().nullable().optional(),
    question: z.number().optional(),
    text: z.string().optional(),
    deadlineAt: z.string().optional(),
  })
  .openapi("InboxItem");
