import { createHash } from "node:crypto";
import type { EndedWork } from "../store/port.ts";
import type { Span } from "./port.ts";

// TR1. Spans are made from rows, and their ids from the ids of rows. So a build that survives a
// crash has one whole trace, and a span that is sent twice is the same span.

const digits = (text: string, bytes: number): string =>
  createHash("sha256")
    .update(`wavesmith:${text}`)
    .digest("hex")
    .slice(0, bytes * 2);

const traceIdOf = (buildId: string): string => digits(`trace:${buildId}`, 16);
const spanIdOf = (id: string): string => digits(`span:${id}`, 8);
/** A task that is done again in a later wave has a span in each. */
const taskSpanId = (taskId: string, waveId: string): string => spanIdOf(`${taskId}/${waveId}`);

/** Makes the spans of ended work, ordered from the build to its model calls. */
export const spansOf = (work: EndedWork): Span[] => [
  ...work.builds.map(buildSpan),
  ...work.waves.map(waveSpan),
  ...work.tasks.map(taskSpan),
  ...work.attempts.map(attemptSpan),
  ...work.gateRuns.map(gateSpan),
  ...work.modelCalls.map(callSpan),
];

const build = (buildId: string) => ({ "wavesmith.build.id": buildId });

const buildSpan = (row: EndedWork["builds"][number]): Span => ({
  ...{ traceId: traceIdOf(row.id), spanId: spanIdOf(row.id), parentSpanId: null, isCall: false },
  ...{ name: "build", startedAt: row.createdAt, endedAt: row.endedAt ?? row.createdAt },
  failure: row.status === "failed" ? (row.reason ?? "failed") : null,
  attributes: {
    ...build(row.id),
    "wavesmith.project.id": row.projectId,
    "wavesmith.tenant.id": row.tenantId,
    "wavesmith.build.status": row.status,
    "wavesmith.build.requested_by": row.requestedBy,
  },
});

const waveSpan = (row: EndedWork["waves"][number]): Span => ({
  ...{ traceId: traceIdOf(row.buildId), spanId: spanIdOf(row.id), parentSpanId: spanIdOf(row.buildId), isCall: false },
  ...{ name: `wave ${row.number}`, startedAt: row.createdAt, endedAt: row.endedAt ?? row.passedAt ?? row.createdAt },
  failure: row.status === "failed" || row.status === "blocked" ? (row.reason ?? row.status) : null,
  attributes: { ...build(row.buildId), "wavesmith.wave.number": row.number, "wavesmith.wave.status": row.status },
});

const taskSpan = (row: EndedWork["tasks"][number]): Span => ({
  ...{ traceId: traceIdOf(row.buildId), spanId: taskSpanId(row.id, row.waveId), parentSpanId: spanIdOf(row.waveId) },
  ...{ name: `task ${row.key}`, startedAt: row.startedAt, endedAt: row.endedAt, isCall: false },
  failure: row.status === "failed" ? (row.reason ?? "failed") : null,
  attributes: { ...build(row.buildId), "wavesmith.task": row.key, "wavesmith.role": row.agent },
});

const attemptSpan = (row: EndedWork["attempts"][number]): Span => ({
  ...{ traceId: traceIdOf(row.buildId), spanId: spanIdOf(row.id), isCall: false },
  parentSpanId: row.taskId === null ? spanIdOf(row.waveId) : taskSpanId(row.taskId, row.waveId),
  ...{ name: `${row.kind === "task" ? "attempt" : row.kind} ${row.number}` },
  ...{ startedAt: row.createdAt, endedAt: row.endedAt ?? row.createdAt },
  failure: row.outcome === "succeeded" || row.outcome === "cancelled" ? null : (row.reason ?? row.outcome),
  attributes: {
    ...build(row.buildId),
    "wavesmith.task": row.task,
    "wavesmith.role": row.role,
    "wavesmith.attempt.id": row.id,
    "wavesmith.attempt.number": row.number,
    "wavesmith.attempt.outcome": row.outcome,
  },
});

const gateSpan = (row: EndedWork["gateRuns"][number]): Span => ({
  ...{ traceId: traceIdOf(row.buildId), spanId: spanIdOf(row.id), parentSpanId: spanIdOf(row.waveId), isCall: false },
  ...{ name: `gate ${row.gate}`, startedAt: row.createdAt, endedAt: row.endedAt ?? row.createdAt },
  failure: row.verdict === "failed" || row.verdict === "inconclusive" ? (row.reason ?? row.verdict) : null,
  attributes: {
    ...build(row.buildId),
    "wavesmith.gate": row.gate,
    "wavesmith.gate.round": row.round,
    "wavesmith.gate.verdict": row.verdict,
  },
});

/** Attributes are those of OpenTelemetry's conventions for generative AI, where there is one. */
const callSpan = (row: EndedWork["modelCalls"][number]): Span => ({
  ...{ traceId: traceIdOf(row.buildId), spanId: spanIdOf(row.id), parentSpanId: spanIdOf(row.ownerId), isCall: true },
  ...{ name: `chat ${row.model}`, startedAt: row.startedAt, endedAt: row.endedAt ?? row.startedAt },
  failure: row.error,
  attributes: {
    ...build(row.buildId),
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": row.provider,
    "gen_ai.request.model": row.model,
    "gen_ai.usage.input_tokens": row.inputTokens,
    "gen_ai.usage.output_tokens": row.outputTokens,
    "http.response.status_code": row.httpStatus,
    "wavesmith.cost.usd": row.microUsd === null ? null : row.microUsd / 1e6,
  },
});
