import type { GetStepTools, Inngest, InngestFunction } from "inngest";
import { NonRetriableError } from "inngest";
import type { Relay } from "../src/coordinator/next/relay.ts";
import type { Ports } from "../src/coordinator/port.ts";
import type { Chore } from "../src/coordinator/sandboxes/due-chores.ts";
import { isDiskFull } from "../src/domain/disk-full.ts";
import { messageOf, WavesmithError } from "../src/domain/errors.ts";
import type { DomainEvent } from "../src/domain/events.ts";

/** What every function of the flow is made with. */
export interface Flow {
  readonly inngest: Inngest.Any;
  readonly ports: Ports;
  readonly relay: Relay;
  /** The sandbox driver for requests that name none. */
  readonly defaultDriver: string;
  /** Whether the disk of the data directory is full now. */
  readonly diskFull: () => boolean;
  /**
   * What a request asks for: as a command of this machine sent it, else without what only such a
   * one may say.
   */
  readonly vetted: (requestId: string, data: Record<string, unknown>) => Promise<Record<string, unknown>>;
  /**
   * Whether an event came by us, or from somebody with the key of an Inngest server; a dev server
   * takes any.
   */
  readonly isFromUs: (event: DomainEvent) => Promise<boolean>;
}

type StepTools = GetStepTools<Inngest.Any>;

export interface FlowFunction<Data> {
  readonly id: string;
  readonly name: string;
  readonly trigger: string;
  /** It decides about a build that is there: an event that anybody may have sent is refused. */
  readonly decides?: true;
  readonly run: (context: { data: Data; eventId: string; step: Verbs }) => Promise<unknown>;
  /** What becomes of the thing the event is about when every retry has failed. */
  readonly failed?: (context: { data: Data; eventId: string; reason: string; step: Verbs }) => Promise<unknown>;
}

/** Runs a verb as a step with a name people read in Inngest's dashboard. */
type Verbs = <Result>(name: string, verb: () => Promise<Result>) => Promise<Result>;

const verbs =
  (step: StepTools, flow: Flow): Verbs =>
  async (name, verb) => {
    for (let turn = 1; ; turn += 1) {
      const answer = await step.run(turn === 1 ? name : `${name} (${turn})`, async () => {
        try {
          return await withRoom(() => done(verb, flow), flow);
        } catch (error) {
          if (isFull(error) && turn < mostTurns) return { [fullKey]: error.retryAfterMs };
          throw forInngest(error);
        }
      });
      const retryAfterMs = fullness(answer);
      if (retryAfterMs === null) return answer as Awaited<ReturnType<typeof verb>>;
      // Between two tries nothing of this process is held, so that what is at work can end and make
      // room.
      await step.sleep(`wait for a sandbox (${name}, ${turn})`, waitMs(turn, retryAfterMs));
    }
  };

/**
 * Does the verb and sends the events that it has committed: a step of its own for that would be one
 * more commit.
 */
async function done<Result>(verb: () => Promise<Result>, { relay }: Flow): Promise<Result> {
  const result = await verb();
  await relay.flush();
  return result;
}

/** What a step answers that could not be done because there was no room for one more sandbox. */
const fullKey = "wavesmith/full";
/**
 * With the waits below ten hours; a function may have a thousand steps, and two go into each turn.
 */
const mostTurns = 450;
/** Below the time after which the reconciler asks again on behalf of a build that stands still. */
const longestWaitMs = 90_000;

const isFull = (error: unknown): error is WavesmithError & { retryAfterMs: number } =>
  error instanceof WavesmithError && error.code === "capacity" && error.retryAfterMs !== null;

function fullness(answer: unknown): number | null {
  if (typeof answer !== "object" || answer === null || !(fullKey in answer)) return null;
  return Number(answer[fullKey]);
}

/** As soon as was said in the first minutes, then less and less often. */
const waitMs = (turn: number, retryAfterMs: number): number =>
  Math.min(longestWaitMs, Math.max(retryAfterMs, retryAfterMs * Math.floor(turn / 12)));

const roomWaitMs = 60 * 60_000;

/** A full disk is waited for: verbs can be done again, and retries would be used up in seconds. */
async function withRoom<Result>(verb: () => Promise<Result>, flow: Flow): Promise<Result> {
  const deadline = Date.now() + roomWaitMs;
  for (let delayMs = 500; ; delayMs = Math.min(delayMs * 2, 5_000)) {
    try {
      return await verb();
    } catch (error) {
      // A program that could not write says so in many ways, so the disk is asked as well.
      if (!isDiskFull(error) && (isFinal(error) || !flow.diskFull())) throw error;
      if (Date.now() > deadline) throw error;
      flow.ports.log.warn(`no space left on device: ${messageOf(error)}`);
      await new Promise((resolve) => setTimeout(resolve, delayMs).unref());
    }
  }
}

/** Our errors in Inngest's terms: final, or worth a retry. */
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
  readonly run: (context: { step: Verbs }) => Promise<unknown>;
}

/** Something that is done again and again; a time that failed is made good by the next one. */
export function cronFunction(flow: Flow, options: CronFunction): InngestFunction.Any {
  const { id, name, cron } = options;
  const definition = { id, name, retries: 0 as const, triggers: [{ cron }] };
  return flow.inngest.createFunction(definition, ({ step }) => options.run({ step: verbs(step, flow) }));
}

export interface ChoreFunction extends Omit<CronFunction, "cron"> {
  readonly trigger: Chore;
}

/**
 * Something that the upkeep asks for when there is work; a time that failed is made good by the
 * next one.
 */
export function choreFunction(flow: Flow, { id, name, trigger, run }: ChoreFunction): InngestFunction.Any {
  const definition = { id, name, retries: 0 as const, triggers: [{ event: trigger }] };
  return flow.inngest.createFunction(definition, ({ step }) => run({ step: verbs(step, flow) }));
}

/** Binds a trigger and steps to verbs. */
export function flowFunction<Data>(flow: Flow, options: FlowFunction<Data>): InngestFunction.Any {
  return flow.inngest.createFunction(
    {
      id: options.id,
      name: options.name,
      retries,
      triggers: [{ event: options.trigger }],
      onFailure: async ({ event, error, step }) => {
        const original = event.data.event;
        flow.ports.log.warn(`${options.name} failed for good: ${messageOf(error)}`, { event: original.id });
        if (options.failed === undefined) return;
        const context = { data: original.data as Data, eventId: String(original.id), reason: messageOf(error) };
        await options.failed({ ...context, step: verbs(step, flow) });
      },
    },
    async ({ event, step }) => {
      const { name, data } = event;
      const eventId = String(event.id);
      if (options.decides && !(await flow.isFromUs({ name, id: eventId, data }))) throw forInngest(fromAnybody(name));
      return options.run({ data: data as Data, eventId, step: verbs(step, flow) });
    },
  );
}

const fromAnybody = (name: string): WavesmithError =>
  new WavesmithError("unsupported", `${name} came by the dev server, which asks nobody for a key: it decides nothing`, {
    remedy: "send it to `wavesmith serve` with its key, or use `wavesmith approve`, `reject` or `cancel`",
  });
