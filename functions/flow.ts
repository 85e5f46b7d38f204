import type { GetStepTools, Inngest, InngestFunction } from "inngest";
import { NonRetriableError } from "inngest";
import type { Relay } from "../src/coordinator/next/relay.ts";
import type { Ports } from "../src/coordinator/port.ts";
import type { Chore } from "../src/coordinator/sandboxes/due-chores.ts";
import { isDiskFull } from "../src/domain/disk-full.ts";
import { messageOf, WavesmithError } from "../src/domain/errors.ts";
import type { DomainEvent } from "../src/domain/events.ts";

/** What every function of the flow needs. */
export interface Flow {
  readonly inngest: Inngest.Any;
  readonly ports: Ports;
  readonly relay: Relay;
  /** The sandbox driver for requests that name none. */
  readonly defaultDriver: string;
  /** Whether the disk of the data directory is full now. */
  readonly diskFull: () => boolean;
  /**
   * The data of a request. Fields that only a command of this machine may set are dropped unless
   * such a command sent it.
   */
  readonly vetted: (requestId: string, data: Record<string, unknown>) => Promise<Record<string, unknown>>;
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
  /** The function decides about an existing build, so events that anyone could send are refused. */
  readonly decides?: true;
  readonly run: (context: { data: Data; eventId: string; step: Verbs }) => Promise<unknown>;
  /** Runs when every retry has failed. */
  readonly failed?: (context: { data: Data; eventId: string; reason: string; step: Verbs }) => Promise<unknown>;
}

/** Runs a verb as a step; people read its name in Inngest's dashboard. */
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
      // Hold nothing between two tries, so that running work can end and free a slot.
      await step.sleep(`wait for a sandbox (${name}, ${turn})`, waitMs(turn, retryAfterMs));
    }
  };

/**
 * Runs the verb and sends the events it committed. A separate step for that would cost one more
 * commit.
 */
async function done<Result>(verb: () => Promise<Result>, { relay }: Flow): Promise<Result> {
  const result = await verb();
  await relay.flush();
  return result;
}

/** The result of a step that found no free sandbox slot. */
const fullKey = "wavesmith/full";
/** Ten hours with the waits below; a function may have a thousand steps, and each try takes two. */
const mostTurns = 450;
/** Shorter than the time after which the reconciler retries for a stalled build. */
const longestWaitMs = 90_000;

const isFull = (error: unknown): error is WavesmithError & { retryAfterMs: number } =>
  error instanceof WavesmithError && error.code === "capacity" && error.retryAfterMs !== null;

function fullness(answer: unknown): number | null {
  if (typeof answer !== "object" || answer === null || !(fullKey in answer)) return null;
  return Number(answer[fullKey]);
}

/** Uses the given delay for the first minutes, then backs off. */
const waitMs = (turn: number, retryAfterMs: number): number =>
  Math.min(longestWaitMs, Math.max(retryAfterMs, retryAfterMs * Math.floor(turn / 12)));

const roomWaitMs = 60 * 60_000;

/** Waits for a full disk, because verbs can be repeated and retries would be used up in seconds. */
async function withRoom<Result>(verb: () => Promise<Result>, flow: Flow): Promise<Result> {
  const deadline = Date.now() + roomWaitMs;
  for (let delayMs = 500; ; delayMs = Math.min(delayMs * 2, 5_000)) {
    try {
      return await verb();
    } catch (error) {
      // Programs report a failed write in many ways, so ask the disk as well.
      if (!isDiskFull(error) && (isFinal(error) || !flow.diskFull())) throw error;
      if (Date.now() > deadline) throw error;
      flow.ports.log.warn(`no space left on device: ${messageOf(error)}`);
      await new Promise((resolve) => setTimeout(resolve, delayMs).unref());
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
  readonly run: (context: { step: Verbs }) => Promise<unknown>;
}

/** Repeated work; the next run makes up for a failed one. */
export function cronFunction(flow: Flow, options: CronFunction): InngestFunction.Any {
  const { id, name, cron } = options;
  const definition = { id, name, retries: 0 as const, triggers: [{ cron }] };
  return flow.inngest.createFunction(definition, ({ step }) => options.run({ step: verbs(step, flow) }));
}

export interface ChoreFunction extends Omit<CronFunction, "cron"> {
  readonly trigger: Chore;
}

/** Work that the upkeep requests when there is any; the next run makes up for a failed one. */
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
