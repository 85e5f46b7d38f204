import { createFunctions } from "../../functions/index.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import { createRelay } from "../../src/coordinator/relay.ts";
import type { Random } from "../support/random-plan.ts";
import type { Orchestrator } from "./turns.ts";

// Runs the functions of the flow as any Inngest may: events arrive late, twice, in any order or not at all; a step may
// run again although it has run; a run that was begun by one process is gone on with by another, while the first one
// may still be at the step it was at.

export interface SentEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

interface Handler {
  readonly id: string;
  readonly trigger: string;
  run(context: object): Promise<unknown>;
  failed(context: object): Promise<unknown>;
}

type Steps = Map<string, { value: unknown } | { error: unknown }>;

/** One event given to one function. */
export interface Run {
  readonly functionId: string;
  readonly event: SentEvent;
  /** What failed, for the handler of failures. */
  readonly failure: unknown;
  readonly steps: Steps;
  /** Raised when another takes it over: what an earlier one did last is not heard. */
  turn: number;
  by: Orchestrator | null;
  isOver: boolean;
}

/** How unkind the delivery is. */
export interface Delivery {
  readonly drops: number;
  readonly repeats: number;
  readonly forgets: number;
}

export interface EventRunner {
  /** Takes events as an event key's endpoint does: one id once, but now and then nobody hears it, or all hear it twice. */
  send(events: readonly SentEvent[]): void;
  /** Runs that nobody is at. */
  readonly idle: readonly Run[];
  /** Runs somebody is at. */
  readonly busy: readonly Run[];
  /** Has a run begun or gone on with by this process. */
  take(run: Run, by: Participant): void;
  /** Nobody is at its runs any more. */
  leave(by: Orchestrator): void;
  readonly dropped: number;
}

/** An orchestrator with the functions bound to its ports. */
export interface Participant {
  readonly self: Orchestrator;
  readonly ports: Ports;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly turn: (name: string) => Promise<void>;
}

const maxTries = 5;

export function bindFunctions(ports: Ports): ReadonlyMap<string, Handler> {
  const inngest = {
    createFunction: (
      options: { id: string; triggers: { event?: string }[]; onFailure: Handler["failed"] },
      run: Handler["run"],
    ) => ({ id: options.id, trigger: options.triggers[0]!.event, run, failed: options.onFailure }),
  };
  const relay = createRelay(ports, () => "all");
  const flow = {
    inngest,
    ports,
    relay,
    defaultDriver: "local",
    diskFull: () => false,
    vetted: async (_id: string, data: Record<string, unknown>) => data,
  };
  const handlers = createFunctions(flow as never) as unknown as Handler[];
  // What comes round by the clock is no part of a build's flow.
  return new Map(handlers.filter(({ trigger }) => trigger !== undefined).map((handler) => [handler.id, handler]));
}

const hears = ({ trigger }: Handler, name: string): boolean =>
  trigger.endsWith("*") ? name.startsWith(trigger.slice(0, -1)) : trigger === name;

export function createEventRunner(random: Random, delivery: Delivery, handlers: () => readonly Handler[]): EventRunner {
  const known = new Set<string>();
  const runs: Run[] = [];
  let dropped = 0;
  const begin = (functionId: string, event: SentEvent, failure: unknown = null): void => {
    runs.push({ functionId, event, failure, steps: new Map(), turn: 0, by: null, isOver: false });
  };
  const end = (run: Run): void => {
    run.isOver = true;
    runs.splice(runs.indexOf(run), 1);
  };
  return {
    send(events) {
      for (const event of events) {
        if (known.has(event.id) && !random.chance(delivery.repeats)) continue;
        known.add(event.id);
        const listeners = handlers().filter((handler) => hears(handler, event.name));
        const isAsked = event.name !== "project/build.requested"; // nobody could ask again
        if (isAsked && listeners.length > 0 && dropped < 3 && random.chance(delivery.drops)) {
          dropped += 1;
          continue;
        }
        for (const { id } of listeners) {
          begin(id, event);
          if (random.chance(delivery.repeats)) begin(id, event);
        }
      }
    },
    get idle() {
      return runs.filter((run) => run.by === null);
    },
    get busy() {
      return runs.filter((run) => run.by !== null);
    },
    get dropped() {
      return dropped;
    },
    take(run, by) {
      run.turn += 1;
      run.by = by.self;
      const { turn } = run;
      const handler = by.handlers.get(run.functionId)!;
      const step = { run: createStep(random, delivery, run, by) };
      const context = { event: run.event, step };
      const going =
        run.failure === null
          ? handler.run(context)
          : handler.failed({ event: { data: { event: run.event } }, error: run.failure, step });
      going.then(
        () => run.turn === turn && !run.isOver && end(run),
        (error: unknown) => {
          if (run.turn !== turn || run.isOver) return;
          end(run);
          if (run.failure === null) begin(run.functionId, run.event, error);
        },
      );
    },
    leave(by) {
      for (const run of runs) if (run.by === by) run.by = null;
    },
  };
}

function createStep(random: Random, delivery: Delivery, run: Run, by: Participant) {
  const { turn } = run;
  const counts = new Map<string, number>();
  const never = new Promise<never>(() => undefined);
  return async (name: string, work: () => Promise<unknown>): Promise<unknown> => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    const id = `${name} ${count}`;
    for (let tries = 1; ; tries += 1) {
      const kept = run.steps.get(id);
      if (kept !== undefined && "error" in kept) throw kept.error;
      if (kept !== undefined) return kept.value;
      await by.turn(`${run.functionId}: ${name}`);
      const result = await work().then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      );
      await by.turn(`${run.functionId}: keep what came of "${name}"`);
      if (run.turn !== turn) return never;
      const isFinal = "error" in result && ((result.error as Error).name === "NonRetriableError" || tries >= maxTries);
      if ("value" in result && random.chance(delivery.forgets)) continue;
      if ("value" in result || isFinal) run.steps.set(id, result);
    }
  };
}
