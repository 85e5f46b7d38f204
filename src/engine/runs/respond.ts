import { messageOf } from "../../domain/errors.ts";
import type { EngineContext } from "../context.ts";
import { type EngineQueryable, inTransaction, isTransient, withDatabase } from "../database.ts";
import type { EngineJob } from "../scheduling/claims.ts";
import { type CallResponse, serializedError } from "../sdk/protocol.ts";
import { type Fence, lockRun, writeTransition } from "./answers.ts";
import { type Dispatch, lifecycleOf, writeDispatch } from "./dispatch.ts";
import { applyResponse, applyTimer, type RunView, type Transition } from "./transition.ts";

const fenceOf = (context: EngineContext, job: EngineJob): Fence => ({
  jobId: job.id,
  generation: job.generation,
  holder: context.holder,
});

/**
 * Stores a job's answer and its consequences in one commit, waiting while the database is
 * unreachable. An answer that the database refuses counts as a failed attempt. A stale job changes
 * nothing. Returns whether there may be new work to claim.
 */
export async function respond(context: EngineContext, job: EngineJob, response: CallResponse | null): Promise<boolean> {
  const written = await withDatabase(async () => {
    try {
      return await writeAnswer(context, job, response);
    } catch (error) {
      if (isTransient(error)) throw error;
      context.logger.error(`the answer of ${job.functionId} (${job.runId}) could not be stored`, error);
      const refused = serializedError("Error", `the answer could not be stored: ${messageOf(error)}`);
      return await writeAnswer(context, job, { status: 500, noRetry: false, retryAfter: null, body: refused });
    }
  }, context.goOn);
  if (written === null)
    context.logger.warn(`a late answer of ${job.functionId} (${job.runId}) was dropped: its lease was taken over`);
  return written === null || createsWork(written) || specOf(context, job).isLimited;
}

const createsWork = ({ transition, dispatch }: Answer): boolean =>
  transition.jobs.length > 0 || transition.retry !== null || dispatch.runs.length > 0;

/** Returns the answer it wrote, or null when the job is stale. */
async function writeAnswer(
  context: EngineContext,
  job: EngineJob,
  response: CallResponse | null,
): Promise<Answer | null> {
  // A plain call is the only job of its run: nothing is pending, and the job's fence is enough of
  // a lock.
  if (response !== null && job.stepId === null) {
    const answer = answerOf(context, job, response, { forcePlan: job.forcePlan, pending: [] });
    if (answer.dispatch.events.length === 0) return await writeIfCurrent(context, context.database, job, answer);
    return await inTransaction(context.database, "BEGIN", (on) => writeIfCurrent(context, on, job, answer));
  }
  return await inTransaction(context.database, "BEGIN", async (on) => {
    const run = await lockRun(on, job.runId);
    return run === null ? null : await writeIfCurrent(context, on, job, answerOf(context, job, response, run));
  });
}

interface Answer {
  readonly transition: Transition;
  readonly dispatch: Dispatch;
}

function answerOf(
  context: EngineContext,
  job: EngineJob,
  response: CallResponse | null,
  state: Omit<RunView, "functionId">,
): Answer {
  const run = { functionId: job.functionId, ...state };
  const maxAttempts = specOf(context, job).maxAttempts;
  const transition =
    response === null
      ? applyTimer(run, job.stepId ?? "", context.nowMs())
      : applyResponse(run, { stepId: job.stepId, attempt: job.attempt, maxAttempts }, response, {
          nowMs: context.nowMs(),
          retryDelaysMs: context.retryDelaysMs,
        });
  const { end } = transition;
  return { transition, dispatch: end === null ? { events: [], runs: [] } : lifecycleOf(context, job, end) };
}

async function writeIfCurrent(
  context: EngineContext,
  on: EngineQueryable,
  job: EngineJob,
  answer: Answer,
): Promise<Answer | null> {
  const { transition, dispatch } = answer;
  const slots = specOf(context, job).slots(job.event);
  await context.crash("engine.respond.before-commit");
  const current = await writeTransition(on, {
    fence: fenceOf(context, job),
    transition,
    nowMs: context.nowMs(),
    slots,
  });
  if (!current) return null;
  await writeDispatch(context, on, dispatch);
  return answer;
}

/** Returns the spec of a job's function; only registered functions are claimed. */
export function specOf(context: EngineContext, job: EngineJob) {
  const spec = context.specs().get(job.functionId);
  if (spec === undefined) throw new Error(`${job.functionId} was claimed but is not registered`);
  return spec;
}
