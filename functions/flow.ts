import { setTimeout as delay } from "node:timers/promises";
import type { GetStepTools, Inngest, InngestFunction } from "inngest";
import { NonRetriableError } from "inngest";
import type { Relay } from "../src/coordinator/next/relay.ts";
import type { Ports } from "../src/coordinator/port.ts";
import { isDiskFull } from "../src/domain/disk-full.ts";
import { messageOf, WavesmithError } from "../src/domain/errors.ts";
import type { DomainEvent } from "../src/domain/events/events.ts";
import { about, factsOf, type LogFacts } from "../src/domain/log-facts.ts";
import type { Chore } from "../src/sandbox-lifecycle/upkeep/due-chores.ts";

/** Dependencies of every function. */
export interface Flow {
  readonly inngest: Inngest.Any;
  readonly ports: Ports;
  readonly relay: Relay;
  /** The sandbox driver for requests that name none. */
  readonly defaultDriver: string;
  /** Whether the disk of the data directory is full now. */
  readonly diskFull: () => boolean;
  /** Returns a request's data without fields that only commands on this machine may set. */
  readonly vetData: (requestId: string, data: Record<string, unknown>) => Promise<Record<string, unknown>>;
  /**
   * Whether an event came from us or from a holder of the Inngest server's key; a dev server
   * accepts any event.
   */
  readonly isFromUs: (event: DomainEvent) => Promise<boolean>;
}

type StepTools = GetStepTools<Inngest.Any>;

export interface FlowFunction<Data> {
  readonly id: string;
  readonly name: string;
  readonly trigger: string;
  /**
   * Refuses events that anyone could send, because the function decides about an existing build.
   */
  readonly decides?: true;
  /**
   * Waits while the forge cannot be reached, limits our calls or refuses our credential, so that
   * nothing said there is lost.
   */
  readonly outlastsForge?: true;
  readonly run: (context: { data: Data; eventId: string; step: StepRunner }) => Promise<unknown>;
  /** Runs when every retry has failed. */
  readonly failed?: (context: { data: Data; eventId: string; reason: string; step: StepRunner }) => Promise<unknown>;
}

/** Runs an operation as a step; people read its name in Inngest's dashboard. */
type StepRunner = <Result>(name: string, operation: () => Promise<Result>) => Promise<Result>;

const createStepRunner =
  (step: StepTools, flow: Flow, { facts = {}, outlastsForge = false }: RunnerOptions = {}): StepRunner =>
  async (name, operation) => {
    for (let attemptNumber = 1; ; attemptNumber += 1) {
      const answer = await step.run(attemptNumber === 1 ? name : `${name} (${attemptNumber})`, async () => {
        try {
          return await about(facts, () => withRoom(() => runAndFlush(operation, flow), flow));
        } catch (error) {
          const key = isFull(error) ? fullKey : outlastsForge && isAway(error) ? awayKey : null;
          if (key === null || attemptNumber >= maxTries) throw forInngest(error);
          if (key === awayKey) flow.ports.log.warn(`${name} waits for the forge: ${messageOf(error)}`);
          return { [key]: (error as WavesmithError).retryAfterMs };
        }
      });
      const wait = waitOf(answer, attemptNumber);
      if (wait === null) return answer as Awaited<ReturnType<typeof operation>>;
      // Hold nothing between two tries, so that running work can end and free a slot.
      await step.sleep(`wait for ${wait.what} (${name}, ${attemptNumber})`, wait.ms);
    }
  };

interface RunnerOptions {
  readonly facts?: LogFacts;
  readonly outlastsForge?: boolean;
}

/**
 * Runs the operation and sends the events it committed. A separate step for that would cost one
 * more commit.
 */
async function runAndFlush<Result>(operation: () => Promise<Result>, { relay }: Flow): Promise<Result> {
  const result = await operation();
  await relay.flush();
  return result;
}

/** The result of a step that found no free sandbox slot. */
const fullKey = "wavesmith/full";
/** The result of a step that did not get through to the forge. */
const awayKey = "wavesmith/away";
/** Ten hours with the waits below. A function may have a thousand steps, and each try takes two. */
const maxTries = 450;
/** Shorter than the time after which the reconciler retries for a stalled build. */
const maxWaitMs = 90_000;
/** So rarely we ask a forge that stays away; its rate limit may name a later time. */
const maxAwayMs = 10 * 60_000;

const isFull = (error: unknown): boolean =>
  error instanceof WavesmithError && error.code === "capacity" && error.retryAfterMs !== null;

/** Whether a forge says when to ask again, or its failure lets us hope for an answer later. */
const isAway = (error: unknown): boolean =>
  error instanceof WavesmithError && error.code === "environment" && error.retryAfterMs !== null;

/** What a step waits for, and how long; null for the result of a step that is done. */
function waitOf(answer: unknown, attemptNumber: number): { what: string; ms: number } | null {
  if (typeof answer !== "object" || answer === null) return null;
  // Uses the given delay for the first minutes, then backs off.
  const backedOffMs = (ms: number, longestMs: number) => Math.min(longestMs, ms * Math.floor(attemptNumber / 12));
  if (fullKey in answer) {
    const ms = Number(answer[fullKey]);
    return { what: "a sandbox", ms: Math.min(maxWaitMs, Math.max(ms, backedOffMs(ms, maxWaitMs))) };
  }
  if (!(awayKey in answer)) return null;
  const ms = Number(answer[awayKey]);
  return { what: "the forge", ms: Math.max(ms, backedOffMs(ms, maxAwayMs)) };
}

const roomWaitMs = 60 * 60_000;

/**
 * Waits for a full disk, because operations can be repeated and retries would be used up in
 * seconds.
 */
async function withRoom<Result>(operation: () => Promise<Result>, flow: Flow): Promise<Result> {
  const deadline = Date.now() + roomWaitMs;
  for (let delayMs = 500; ; delayMs = Math.min(delayMs * 2, 5_000)) {
    try {
      return await operation();
    } catch (error) {
      // Programs report a failed write in many ways, so ask the disk as well.
      if (!isDiskFull(error) && (isFinal(error) || !flow.diskFull())) throw error;
      if (Date.now() > deadline) throw error;
      flow.ports.log.warn(`no space left on device: ${messageOf(error)}`);
      await delay(delayMs, undefined, { ref: false });
    }
  }
}

/** Translates our errors for Inngest: final, or worth a retry. */
function forInngest(error: unknown): unknown {
  if (!isFinal(error)) return error;
  const remedy = error.remedy === null ? "" : ` (${error.remedy})`;
  return new NonRetriableError(`${error.message}${remedy}`, { cause: error });
}

const finalCodes: ReadonlySet<string> = new Set([
  "plan-invalid",
  "usage",
  "unsupported",
  "conflict",
  "environment",
  "capacity",
]);

const isFinal = (error: unknown): error is WavesmithError =>
  error instanceof WavesmithError && !error.retryable && finalCodes.has(error.code);

const retries = 4 as const;

export interface CronFunction {
  readonly id: string;
  readonly name: string;
  /** In UTC. */
  readonly cron: string;
  readonly run: (context: { step: StepRunner }) => Promise<unknown>;
}

/** Creates a function that a cron triggers; the next run makes up for a failed one. */
export function cronFunction(flow: Flow, options: CronFunction): InngestFunction.Any {
  const { id, name, cron } = options;
  const definition = { id, name, retries: 0 as const, triggers: [{ cron }] };
  return flow.inngest.createFunction(definition, ({ step }) => options.run({ step: createStepRunner(step, flow) }));
}

export interface ChoreFunction extends Omit<CronFunction, "cron"> {
  readonly trigger: Chore;
}

/** Creates a function for work that the cron requests; the next run makes up for a failed one. */
export function choreFunction(flow: Flow, { id, name, trigger, run }: ChoreFunction): InngestFunction.Any {
  const definition = { id, name, retries: 0 as const, triggers: [{ event: trigger }] };
  return flow.inngest.createFunction(definition, ({ step }) => run({ step: createStepRunner(step, flow) }));
}

/** Creates a function that binds an event and its steps to operations. */
export function flowFunction<Data>(flow: Flow, options: FlowFunction<Data>): InngestFunction.Any {
  return flow.inngest.createFunction(
    {
      id: options.id,
      name: options.name,
      retries,
      triggers: [{ event: options.trigger }],
      onFailure: async ({ event, error, step }) => {
        const original = event.data.event;
        const facts = factsOf(original.data);
        const warning = `${options.name} failed for good: ${messageOf(error)}`;
        about(facts, () => flow.ports.log.warn(warning, { event: original.id }));
        if (options.failed === undefined) return;
        const context = { data: original.data as Data, eventId: String(original.id), reason: messageOf(error) };
        await options.failed({ ...context, step: createStepRunner(step, flow, { facts }) });
      },
    },
    async ({ event, step }) => {
      const { name, data } = event;
      const eventId = String(event.id);
      if (options.decides && !(await flow.isFromUs({ name, id: eventId, data }))) throw forInngest(fromAnybody(name));
      const runner = createStepRunner(step, flow, { ...options, facts: factsOf(data) });
      return options.run({ data: data as Data, eventId, step: runner });
    },
  );
}

const fromAnybody = (name: string): WavesmithError =>
  new WavesmithError("unsupported", `${name} came by the dev server, which asks nobody for a key: it decides nothing`, {
    remedy: "send it to `wavesmith serve` with its key, or use `wavesmith approve`, `reject` or `cancel`",
  });
