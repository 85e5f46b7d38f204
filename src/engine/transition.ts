import { messageOf } from "../domain/errors.ts";
import { retryAfterMs, sleepEndMs } from "./durations.ts";
import { type CallResponse, type Op, opSchema, serializedError } from "./protocol.ts";

// What follows from an answer of the SDK, as a pure function of it. Invariants:
// T1. A step's first result stays; the writer must not replace it.
// T2. While parallel steps are open (`pending`), no plain call is queued; when the last one ends,
// exactly one is.
// T3. An answer either ends the run, repeats its own job, or leaves at least one open step or one
// new job: no run is stranded.
// T4. An op the engine does not know ends the run as failed and is named; nothing of that answer is
// kept.

export interface RunView {
  readonly functionId: string;
  /** Parallel steps are open, each with a call of its own. */
  readonly forcePlan: boolean;
  /** Steps that were planned or sleep and have not ended. */
  readonly pending: readonly string[];
}

export interface JobView {
  /** The step this job was to run, null for a plain call. */
  readonly stepId: string | null;
  /** From 0. */
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

/** What is to be written, in one transaction. The answered job goes unless `retry` keeps it. */
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
  /** The delay before each further attempt; the last one repeats. */
  readonly retryDelaysMs: readonly number[];
}

/**
 * What an answer to a call changes. Never throws: an answer that makes no sense counts as an error
 * of the attempt.
 */
export function applyResponse(
  run: RunView,
  job: JobView,
  response: CallResponse,
  settings: TransitionSettings,
): Transition {
  if (response.status === 200) return ended({ status: "completed", result: response.body ?? null });
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

/** What the end of a sleep changes. */
export function applyTimer(run: RunView, stepId: string, nowMs: number): Transition {
  return settled(run, { steps: [{ stepId, value: null }], addPending: [], jobs: [], ended: [stepId], nowMs });
}

interface OpsAnswer {
  readonly response: CallResponse;
  readonly ops: readonly Op[];
}

function applyOps(run: RunView, job: JobView, answer: OpsAnswer, settings: TransitionSettings): Transition {
  const refused = answer.ops.map(refusalOf).find((reason) => reason !== null);
  if (refused !== undefined) return ended({ status: "failed", error: unsupported(run.functionId, refused) });
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
    // One that asks to be called again is, by `settled`, once and when no step is open (T2).
    else if (op.op !== "DiscoveryRequest") jobs.push(jobOf(op, settings.nowMs));
  }
  if (end !== null) return { ...ended(end), steps };
  if (retry !== null) return { ...unchanged(run), steps, removePending: steps.map((step) => step.stepId), retry };
  const addPending = jobs.flatMap((next) => next.stepId ?? []).filter((id) => !run.pending.includes(id));
  const fresh = jobs.filter((next) => next.stepId !== null && addPending.includes(next.stepId));
  // The step this job was for counts as ended even when the answer does not mention it (T3): it is
  // planned again.
  const endedSteps = [...new Set([...steps.map((step) => step.stepId), ...(job.stepId === null ? [] : [job.stepId])])];
  return settled(run, { steps, addPending, jobs: fresh, ended: endedSteps, nowMs: settings.nowMs });
}

interface Progress {
  readonly steps: readonly StepResult[];
  readonly addPending: readonly string[];
  readonly jobs: readonly NewJob[];
  readonly ended: readonly string[];
  readonly nowMs: number;
}

/** T2: goes on with a plain call as soon as no step is open. */
function settled(run: RunView, progress: Progress): Transition {
  const open = new Set([...run.pending, ...progress.addPending]);
  for (const id of progress.ended) open.delete(id);
  const goesOn = open.size === 0;
  const next: NewJob = { kind: "call", stepId: null, dueMs: progress.nowMs };
  return {
    steps: progress.steps,
    addPending: progress.addPending.filter((id) => open.has(id)),
    removePending: progress.ended,
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

const known = new Set([
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
  if (!known.has(op.op)) return `the op ${op.op} of ${step}`;
  if (op.opts?.parallelMode !== undefined) return `parallelMode ${JSON.stringify(op.opts.parallelMode)} of ${step}`;
  return null;
}

const unsupported = (functionId: string, what: string) =>
  serializedError(
    "UnsupportedOpError",
    `function ${functionId} uses ${what}, which the embedded engine does not support`,
  );

interface FailedAnswer {
  readonly response: CallResponse;
  readonly error: unknown;
}

function attemptFailed(run: RunView, job: JobView, answer: FailedAnswer, settings: TransitionSettings): Transition {
  const retry = answer.response.noRetry ? null : nextAttempt(job, answer.response, settings);
  if (retry === null) return ended({ status: "failed", error: answer.error });
  return { ...unchanged(run), retry };
}

function nextAttempt(job: JobView, response: CallResponse, settings: TransitionSettings): Transition["retry"] {
  const attempt = job.attempt + 1;
  if (attempt >= job.maxAttempts) return null;
  const usualMs = settings.retryDelaysMs[Math.min(job.attempt, settings.retryDelaysMs.length - 1)] ?? 0;
  return { attempt, dueMs: settings.nowMs + (retryAfterMs(response.retryAfter, settings.nowMs) ?? usualMs) };
}

const nothing: Transition = {
  steps: [],
  addPending: [],
  removePending: [],
  forcePlan: false,
  jobs: [],
  retry: null,
  end: null,
};
const unchanged = (run: RunView): Transition => ({ ...nothing, forcePlan: run.forcePlan });
const ended = (end: RunEnd): Transition => ({ ...nothing, end });
