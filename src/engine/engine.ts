import { messageOf, WavesmithError } from "../domain/errors.ts";
import { randomIds } from "../domain/ids.ts";
import { saveSteps } from "./answers.ts";
import { createApi } from "./api.ts";
import { type Caller, createCaller } from "./caller.ts";
import type { Job } from "./claims.ts";
import type { EngineContext, EngineLogger } from "./context.ts";
import type { CrashPoint } from "./crash-points.ts";
import { isTransient, withDatabase } from "./database.ts";
import { dispatchOf, writeDispatch } from "./dispatch.ts";
import { isBusy } from "./leases.ts";
import type { Engine, EngineDatabase, EngineEvent } from "./port.ts";
import type { CallResponse, Checkpoint } from "./protocol.ts";
import { type FunctionSpec, specsOf } from "./registry.ts";
import { respond, specOf } from "./respond.ts";
import { createScheduler } from "./scheduler.ts";
import { createSession } from "./session.ts";

export interface EngineOptions {
  readonly database: EngineDatabase;
  /** What a run belongs to, from its event; null: anybody may run it. */
  readonly partition: (event: EngineEvent) => string | null;
  /** Now, in ms since 1970. Leases do not use it. */
  readonly clock?: () => number;
  /** Must be of this start of this process alone; default random. */
  readonly processId?: string;
  readonly logger?: EngineLogger;
  /** How long a lease lasts without renewal; default 30 s. */
  readonly leaseMs?: number;
  /** How long to wait at most between looks for work that nobody told us of; default 500 ms. */
  readonly pollMs?: number;
  /** Calls at once in this process; default 16. */
  readonly parallelism?: number;
  /** Delays before the second, third, … attempt; the last one repeats. */
  readonly retryDelaysMs?: readonly number[];
  /** How long runs that ended are kept; default 30 days. */
  readonly retentionMs?: number;
  readonly crashPoint?: CrashPoint;
}

const defaultRetryDelaysMs = [500, 1_000, 2_000, 5_000, 10_000, 30_000];
const dayMs = 86_400_000;

/**
 * Runs Inngest functions with no Inngest server: drives the SDK's own handler in this process, with
 * all state in Postgres. Any number of engines, in any number of processes, may share a database.
 */
export function createEngine(options: EngineOptions): Engine {
  let registered: { caller: Caller; specs: ReadonlyMap<string, FunctionSpec> } | null = null;
  let stopped = false;
  const registration = () => {
    if (registered === null) throw new WavesmithError("engine", "the engine has no functions yet: call register first");
    return registered;
  };
  const context = contextOf(
    options,
    () => registration().specs,
    () => !stopped,
  );
  const session = createSession({
    database: context.database,
    processId: context.holder,
    onNotified: () => scheduler.wake(),
    onLost: () => scheduler.wake(),
  });
  const announce = () => {
    scheduler.wake(true);
    session.notify();
  };
  const work = async (job: Job) => {
    try {
      const more = await runJob(context, job, registration().caller);
      if (more) announce();
    } catch (error) {
      context.logger.error(`${job.functionId} (${job.runId}) is left for adoption: ${messageOf(error)}`, error);
      scheduler.wake();
    }
  };
  const scheduler = createScheduler({ context, session, work });
  const send = async (events: readonly EngineEvent[]) => {
    const dispatch = dispatchOf(context, events);
    await context.crash("engine.send.before-commit");
    await writeDispatch(context, context.database, dispatch);
    await context.crash("engine.send.after-commit");
    if (dispatch.runs.length > 0) announce();
  };

  return {
    fetch: createApi({
      send: (events) => withDatabase(() => send(events), context.goOn),
      checkpoint: (runId, checkpoint) => withDatabase(() => saveCheckpoint(context, runId, checkpoint), context.goOn),
    }),
    async register(client, functions) {
      const caller = createCaller(client, functions);
      registered = { caller, specs: specsOf(await caller.configs()) };
    },
    async send(events) {
      try {
        await send(events);
      } catch (error) {
        if (!isTransient(error)) throw error;
        throw new WavesmithError("database", "events could not be stored: the database is away", {
          retryable: true,
          cause: error,
        });
      }
    },
    start(partitions) {
      registration();
      stopped = false;
      scheduler.start(partitions);
    },
    async stop(graceMs = 10_000) {
      await scheduler.stop(graceMs);
      stopped = true;
    },
    async idle() {
      const served = { functionIds: [...registration().specs.keys()], partitions: scheduler.served() };
      for (;;) {
        const begun = scheduler.begun();
        const busy = scheduler.inFlight.size > 0 || (await isBusy(context.database, served, context.nowMs()));
        // What was begun during the look may have left more to do, due after the moment that was
        // asked about.
        if (!busy && scheduler.inFlight.size === 0 && scheduler.begun() === begun) return;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
  };
}

function contextOf(options: EngineOptions, specs: EngineContext["specs"], goOn: EngineContext["goOn"]): EngineContext {
  return {
    database: options.database,
    nowMs: options.clock ?? Date.now,
    holder: options.processId ?? randomIds("process"),
    leaseMs: options.leaseMs ?? 30_000,
    pollMs: options.pollMs ?? 500,
    parallelism: options.parallelism ?? 16,
    retentionMs: options.retentionMs ?? 30 * dayMs,
    retryDelaysMs: options.retryDelaysMs ?? defaultRetryDelaysMs,
    partition: options.partition,
    logger: options.logger ?? console,
    crash: options.crashPoint ?? (() => undefined),
    specs,
    goOn,
  };
}

/** Returns whether there may be something to claim now that there was not before. */
async function runJob(context: EngineContext, job: Job, caller: Caller): Promise<boolean> {
  const respondWith = async (response: CallResponse | null) => {
    const more = await respond(context, job, response);
    await context.crash("engine.respond.after-commit");
    return more;
  };
  if (job.kind === "timer") return respondWith(null);
  await context.crash("engine.call.before");
  const response = await caller.call(job, specOf(context, job).maxAttempts);
  await context.crash("engine.call.after");
  return respondWith(response);
}

async function saveCheckpoint(context: EngineContext, runId: string, checkpoint: Checkpoint): Promise<boolean> {
  const fence = { jobId: Number(checkpoint.qi_id), generation: checkpoint.generation_id, holder: context.holder };
  const steps = checkpoint.steps.map((op) => ({ stepId: op.id, value: { data: op.data ?? null } }));
  await context.crash("engine.checkpoint.before-commit");
  const current = await saveSteps(context.database, fence, runId, steps);
  await context.crash("engine.checkpoint.after-commit");
  return current;
}
