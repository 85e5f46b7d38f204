import { messageOf } from "../../domain/errors.ts";
import { type CallResponse, type Op, opSchema, serializedError } from "../sdk/protocol.ts";
import { retryAfterMs, sleepEndMs } from "./durations.ts";

// Computes the consequences of an SDK answer, as a pure function. Invariants:
// ET1. A step's first result is final; the writer must not replace it.
// ET2. While parallel steps are open (`pending`), no plain call is queued; when the last one ends,
// exactly one is.
// ET3. An answer ends the run, retries its own job, or leaves at least one open step or new job, so
// that no run is stranded.
// ET4. An op the engine does not know fails the run with an error that names it; the rest of that
// answer is dropped.

export interface RunView {
  readonly functionId: string;
  /** Whether parallel steps are open, each with its own call. */
  readonly forcePlan: boolean;
  /** Planned and sleeping steps that have not ended. */
  readonly pending: readonly string[];
}

export interface JobView {
  /** The step this job was to run, null for a plain call. */
  readonly stepId: string | null;
  /** Counts from 0. */
  readonly attempt: number;
  readonly maxAttempts: number;
}

export interface StepResult {
  readonly stepId: string;
  readonly value: unknown;
}

export interface NewJob {
  readonly kind: "call" | "timer";
  readonly stepId: string | null;
  readonly dueMs: number;
}

export type RunEnd =
  | { readonly status: "completed"; readonly result: unknown }
  | { readonly status: "failed"; readonly error: unknown };

/** The rows to write in one transaction. The answered job is deleted unless `retry` keeps it. */
export interface Transition {
  readonly steps: readonly StepResult[];
  readonly addPending: readonly string[];
  readonly removePending: readonly string[];
  readonly forcePlan: boolean;
  readonly jobs: readonly NewJob[];
  readonly retry: { readonly attempt: number; readonly dueMs: number } | null;
  readonly end: RunEnd | null;
}

export interface TransitionSettings {
  readonly nowMs: number;
  /** The delay before each retry; the last one repeats. */
  readonly retryDelaysMs: readonly number[];
}

/**
 * Returns the changes that follow from a call's answer. Never throws: an answer that makes no sense
 * counts as a failed attempt.
 */
export function applyResponse(
  run: RunView,
  job: JobView,
  response: CallResponse,
  settings: TransitionSettings,
): Transition {
  if (response.status === 200) return endTransition({ status: "completed", result: response.body ?? null });
  if (response.status !== 206) return attemptFailed(run, job, { response, error: response.body }, settings);
  const ops = opSchema.array().min(1).safeParse(response.body);
  if (!ops.success) {
    const error = serializedError(
      "Error",
      `${run.functionId} answered with ops that cannot be read: ${ops.error.message}`,
    );
    return attemptFailed(run, job, { response, error }, settings);
  }
  try {
    return applyOps(run, job, { response, ops: ops.data }, settings);
  } catch (error) {
    return attemptFailed(run, job, { response, error: serializedError("Error", messageOf(error)) }, settings);
  }
}

/** Returns the changes that follow from the end of a sleep. */
export function applyTimer(run: RunView, stepId: string, nowMs: number): Transition {
  return progressTransition(run, {
    steps: [{ stepId, value: null }],
    addPending: [],
    jobs: [],
    endTransition: [stepId],
    nowMs,
  });
}

interface OpsAnswer {
  readonly response: CallResponse;
  readonly ops: readonly Op[];
}

function applyOps(run: RunView, job: JobView, answer: OpsAnswer, settings: TransitionSettings): Transition {
  const reason = answer.ops.map(refusalOf).find((reason) => reason !== null);
  if (reason !== undefined) return endTransition({ status: "failed", error: unsupported(run.functionId, reason) });
  const steps: StepResult[] = [];
  const jobs: NewJob[] = [];
  let retry: Transition["retry"] = null;
  let end: RunEnd | null = null;
  for (const op of answer.ops) {
    if (op.op === "StepRun") steps.push({ stepId: op.id, value: { data: op.data ?? null } });
    else if (op.op === "StepFailed") steps.push({ stepId: op.id, value: { error: op.error ?? null } });
    else if (op.op === "StepError") {
      retry = nextAttempt(job, answer.response, settings);
      if (retry === null) steps.push({ stepId: op.id, value: { error: op.error ?? null } });
    } else if (op.op === "RunComplete") end = { status: "completed", result: op.data ?? null };
    // For a DiscoveryRequest, `settled` queues one call once no step is open (ET2).
    else if (op.op !== "DiscoveryRequest") jobs.push(jobOf(op, settings.nowMs));
  }
  if (end !== null) return { ...endTransition(end), steps };
  if (retry !== null) return { ...unchanged(run), steps, removePending: steps.map((step) => step.stepId), retry };
  const addPending = jobs.flatMap((next) => next.stepId ?? []).filter((id) => !run.pending.includes(id));
  const newJobs = jobs.filter((next) => next.stepId !== null && addPending.includes(next.stepId));
  // The job's own step counts as ended even when the answer does not mention it, so that it is
  // planned again (ET3).
  const endedSteps = [...new Set([...steps.map((step) => step.stepId), ...(job.stepId === null ? [] : [job.stepId])])];
  return progressTransition(run, {
    steps,
    addPending,
    jobs: newJobs,
    endTransition: endedSteps,
    nowMs: settings.nowMs,
  });
}

interface Progress {
  readonly steps: readonly StepResult[];
  readonly addPending: readonly string[];
  readonly jobs: readonly NewJob[];
  readonly endTransition: readonly string[];
  readonly nowMs: number;
}

/** Queues a plain call as soon as no step is open (ET2). */
function progressTransition(run: RunView, progress: Progress): Transition {
  const open = new Set([...run.pending, ...progress.addPending]);
  for (const id of progress.endTransition) open.delete(id);
  const goesOn = open.size === 0;
  const next: NewJob = { kind: "call", stepId: null, dueMs: progress.nowMs };
  return {
    steps: progress.steps,
    addPending: progress.addPending.filter((id) => open.has(id)),
    removePending: progress.endTransition,
    forcePlan: open.size > 0 && (run.forcePlan || open.size > 1),
    jobs: goesOn ? [...progress.jobs, next] : progress.jobs,
    retry: null,
    end: null,
  };
}

function jobOf(op: Op, nowMs: number): NewJob {
  if (op.op === "Sleep") return { kind: "timer", stepId: op.id, dueMs: sleepEndMs(op.name ?? "", nowMs) };
  return { kind: "call", stepId: op.id, dueMs: nowMs };
}

const knownOps = new Set([
  "StepRun",
  "StepFailed",
  "StepError",
  "StepPlanned",
  "Sleep",
  "RunComplete",
  "DiscoveryRequest",
]);

function refusalOf(op: Op): string | null {
  const step = `step ${JSON.stringify(op.displayName ?? op.name ?? op.id)}`;
  if (!knownOps.has(op.op)) return `the op ${op.op} of ${step}`;
  if (op.opts?.parallelMode !== undefined) return `parallelMode ${JSON.stringify(op.opts.parallelMode)} of ${step}`;
  return null;
}

const unsupported = (functionId: string, feature: string) =>
  serializedError(
    "UnsupportedOpError",
    `function ${functionId} uses ${feature}, which the embedded engine does not support`,
  );

interface FailedAnswer {
  readonly response: CallResponse;
  readonly error: unknown;
}

function attemptFailed(run: RunView, job: JobView, answer: FailedAnswer, settings: TransitionSettings): Transition {
  const retry = answer.response.noRetry ? null : nextAttempt(job, answer.response, settings);
  if (retry === null) return endTransition({ status: "failed", error: answer.error });
  return { ...unchanged(run), retry };
}

function nextAttempt(job: JobView, response: CallResponse, settings: TransitionSettings): Transition["retry"] {
  const attempt = job.attempt + 1;
  if (attempt >= job.maxAttempts) return null;
  const usualMs = settings.retryDelaysMs[Math.min(job.attempt, settings.retryDelaysMs.length - 1)] ?? 0;
  return { attempt, dueMs: settings.nowMs + (retryAfterMs(response.retryAfter, settings.nowMs) ?? usualMs) };
}

const noChange: Transition = {
  steps: [],
  addPending: [],
  removePending: [],
  forcePlan: false,
  jobs: [],
  retry: null,
  end: null,
};
const unchanged = (run: RunView): Transition => ({ ...noChange, forcePlan: run.forcePlan });
const endTransition = (end: RunEnd): Transition => ({ ...noChange, end });
