import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { randomIds } from "../domain/ids.ts";
import type { EngineContext, EngineLogger } from "./context.ts";
import type { OnEngineCrashPoint } from "./crash-points.ts";
import { isTransient, withDatabase } from "./database.ts";
import type { Engine, EngineDatabase, EngineEvent } from "./port.ts";
import { type FunctionSpec, specsOf } from "./registration/registry.ts";
import { saveSteps } from "./runs/answers.ts";
import { dispatchOf, writeDispatch } from "./runs/dispatch.ts";
import { respond, specOf } from "./runs/respond.ts";
import type { EngineJob } from "./scheduling/claims.ts";
import { hasDueWork } from "./scheduling/leases.ts";
import { createScheduler, type Scheduler } from "./scheduling/scheduler.ts";
import { createEngineFetch } from "./sdk/api.ts";
import { createCaller, type FunctionCaller } from "./sdk/caller.ts";
import type { CallResponse, Checkpoint } from "./sdk/protocol.ts";
import { createEngineSession } from "./session.ts";

export interface EngineOptions {
  readonly database: EngineDatabase;
  /** Returns the partition of an event's runs, or null if any process may run them. */
  readonly partition: (event: EngineEvent) => string | null;
  /** Now, in ms since 1970. Leases do not use it. */
  readonly clock?: () => number;
  /** Must be unique to this start of this process; default random. */
  readonly processId?: string;
  readonly logger?: EngineLogger;
  /** How long a lease lasts without renewal; default 30 s. */
  readonly leaseMs?: number;
  /** The longest time between polls for work; default 500 ms. */
  readonly pollMs?: number;
  /** Concurrent calls in this process; default 16. */
  readonly parallelism?: number;
  /** Delays before the second, third, … attempt; the last one repeats. */
  readonly retryDelaysMs?: readonly number[];
  /** How long finished runs are kept; default 30 days. */
  readonly retentionMs?: number;
  readonly crashPoint?: OnEngineCrashPoint;
}

const defaultRetryDelaysMs = [500, 1_000, 2_000, 5_000, 10_000, 30_000];
const dayMs = 86_400_000;

/**
 * Creates an engine that runs Inngest functions without an Inngest server: it drives the SDK's own
 * handler in this process and keeps all state in Postgres. Any number of engines, in any number of
 * processes, may share a database.
 */
export function createEngine(options: EngineOptions): Engine {
  let registered: { caller: FunctionCaller; specs: ReadonlyMap<string, FunctionSpec> } | null = null;
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
  const session = createEngineSession({
    database: context.database,
    processId: context.holder,
    onNotified: () => scheduler.wake(),
    onLost: () => scheduler.wake(),
  });
  const announce = () => {
    scheduler.wake(true);
    session.notify();
  };
  const processJob = async (job: EngineJob) => {
    try {
      const more = await runJob(context, job, registration().caller);
      if (more) announce();
    } catch (error) {
      context.logger.error(`${job.functionId} (${job.runId}) is left for adoption: ${messageOf(error)}`, error);
      scheduler.wake();
    }
  };
  const scheduler = createScheduler({ context, session, work: processJob });
  const send = async (events: readonly EngineEvent[]) => {
    if (await storeEvents(context, events)) announce();
  };

  return {
    fetch: createEngineFetch({
      send: (events) => withDatabase(() => send(events), context.goOn),
      checkpoint: (runId, checkpoint) => withDatabase(() => saveCheckpoint(context, runId, checkpoint), context.goOn),
    }),
    async register(client, functions) {
      const caller = createCaller(client, functions);
      registered = { caller, specs: specsOf(await caller.configs()) };
    },
    send: (events) => send(events).catch(explainUnstored),
    start(partitions) {
      registration();
      stopped = false;
      scheduler.start(partitions);
    },
    async stop(graceMs = 10_000) {
      await scheduler.stop(graceMs);
      stopped = true;
    },
    idle: () => waitUntilIdle(context, scheduler),
  };
}

/** Returns whether a function runs for one of the events. */
async function storeEvents(context: EngineContext, events: readonly EngineEvent[]): Promise<boolean> {
  const dispatch = dispatchOf(context, events);
  await context.crash("engine.send.before-commit");
  await writeDispatch(context, context.database, dispatch);
  await context.crash("engine.send.after-commit");
  return dispatch.runs.length > 0;
}

function explainUnstored(error: unknown): never {
  if (!isTransient(error)) throw error;
  throw new WavesmithError("database", "events could not be stored: the database is unreachable", {
    retryable: true,
    cause: error,
  });
}

async function waitUntilIdle(context: EngineContext, scheduler: Scheduler): Promise<void> {
  const served = { functionIds: [...context.specs().keys()], partitions: scheduler.served() };
  for (;;) {
    const startedBefore = scheduler.startedCount();
    const busy = scheduler.inFlight.size > 0 || (await hasDueWork(context.database, served, context.nowMs()));
    // A job started during the query may have left more work, due after the time we asked about.
    if (!busy && scheduler.inFlight.size === 0 && scheduler.startedCount() === startedBefore) return;
    await delay(5);
  }
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

/** Runs a job and stores its answer. Returns whether there may be new work to claim. */
async function runJob(context: EngineContext, job: EngineJob, caller: FunctionCaller): Promise<boolean> {
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
