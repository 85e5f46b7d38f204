import { createFunctions } from "../../functions/index.ts";
import { createRelay } from "../../src/coordinator/next/relay.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import type { Random } from "../support/random-plan.ts";
import type { Orchestrator } from "./turns.ts";

// Runs the functions of the flow as any Inngest may: events arrive late, twice, in any order or not
// at all; a step may run again although it has run; another process may continue a run while the
// first is still in the same step. A failed step is retried after a while, and a sleep ends after
// its time: in any live process, from the function's beginning, with the results of its steps so
// far.

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

/** One event, delivered to one function. */
export interface Run {
  readonly functionId: string;
  readonly event: SentEvent;
  /** The failure, for the failure handler. */
  readonly failure: unknown;
  readonly steps: Steps;
  /** How often each of its steps has failed. */
  readonly failures: Map<string, number>;
  /** It sleeps until then, in ms since 1970. */
  dueMs: number;
  /**
   * Raised when another process takes it over, so that late results of the earlier one are ignored.
   */
  turn: number;
  by: Orchestrator | null;
  isOver: boolean;
}

/** How unreliable the delivery is. */
export interface Delivery {
  readonly drops: number;
  readonly repeats: number;
  readonly forgets: number;
}

export interface EventRunnerOptions {
  readonly random: Random;
  readonly delivery: Delivery;
  readonly handlers: () => readonly Handler[];
  readonly nowMs: () => number;
  /** Called for every sleep. */
  readonly rests: (why: "a try comes later" | "a function sleeps", detail: string) => void;
}

export interface EventRunner {
  /**
   * Takes events as an event key's endpoint does: one id once. Now and then an event is lost, or
   * delivered twice.
   */
  send(events: readonly SentEvent[]): void;
  /** Runs that no process works on and that could go on now. */
  readonly idle: readonly Run[];
  /** When the first sleeping run goes on; null: none sleeps. */
  readonly nextDueMs: number | null;
  /** Runs that a process works on. */
  readonly busy: readonly Run[];
  /** Starts or continues a run in this process. */
  take(run: Run, by: Participant): void;
  /** Takes a process off its runs. */
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
/** The functions of the engine, and of an Inngest server. */
const retryDelaysMs = [500, 1_000, 2_000, 5_000, 30_000];

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
    vetData: async (_id: string, data: Record<string, unknown>) => data,
  };
  const handlers = createFunctions(flow as never) as unknown as Handler[];
  // Events of crons are not part of a build's flow.
  return new Map(handlers.filter(({ trigger }) => trigger !== undefined).map((handler) => [handler.id, handler]));
}

const hears = ({ trigger }: Handler, name: string): boolean =>
  trigger.endsWith("*") ? name.startsWith(trigger.slice(0, -1)) : trigger === name;

export function createEventRunner(options: EventRunnerOptions): EventRunner {
  const { random, delivery, handlers, nowMs } = options;
  const known = new Set<string>();
  const runs: Run[] = [];
  let dropped = 0;
  const begin = (functionId: string, event: SentEvent, failure: unknown = null): void => {
    const fresh = { steps: new Map(), failures: new Map(), dueMs: 0, turn: 0, by: null, isOver: false };
    runs.push({ functionId, event, failure, ...fresh });
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
        const isAsked = event.name !== "project/build.requested"; // nobody could send it again
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
      return runs.filter((run) => run.by === null && run.dueMs <= nowMs());
    },
    get nextDueMs() {
      const resting = runs.filter((run) => run.by === null && run.dueMs > nowMs());
      return resting.length === 0 ? null : Math.min(...resting.map((run) => run.dueMs));
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
      const step = createSteps(options, run, by);
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

function createSteps({ random, delivery, nowMs, rests }: EventRunnerOptions, run: Run, by: Participant) {
  const { turn } = run;
  const idOf = createNaming();
  const never = new Promise<never>(() => undefined);
  const isOurs = (): boolean => run.turn === turn;
  const rest = (why: Parameters<typeof rests>[0], what: string, forMs: number): Promise<never> => {
    run.by = null;
    run.dueMs = nowMs() + forMs;
    rests(why, `${run.functionId}: ${what}`);
    return never;
  };
  return {
    async run(name: string, work: () => Promise<unknown>): Promise<unknown> {
      const id = idOf(name);
      for (;;) {
        const kept = run.steps.get(id);
        if (kept !== undefined && "error" in kept) throw kept.error;
        if (kept !== undefined) return kept.value;
        await by.turn(`${run.functionId}: ${name}`);
        const result = await work().then(
          (value) => ({ value }),
          (error: unknown) => ({ error }),
        );
        await by.turn(`${run.functionId}: keep what came of "${name}"`);
        if (!isOurs()) return never;
        if ("value" in result && random.chance(delivery.forgets)) continue;
        const failures = (run.failures.get(id) ?? 0) + 1;
        const isFinal = "error" in result && (failures >= maxTries || isNonRetriable(result.error));
        if ("value" in result || isFinal) {
          run.steps.set(id, result);
          continue;
        }
        run.failures.set(id, failures);
        return rest("a try comes later", name, random.pick(retryDelaysMs));
      }
    },
    async sleep(name: string, forMs: number): Promise<void> {
      const id = idOf(name);
      if (run.steps.has(id)) return;
      await by.turn(`${run.functionId}: ${name}`);
      if (!isOurs()) return never;
      run.steps.set(id, { value: null });
      return rest("a function sleeps", name, forMs);
    },
  };
}

const isNonRetriable = (error: unknown): boolean => (error as Error).name === "NonRetriableError";

/** Like the SDK: a name that is used again gets a number. */
function createNaming(): (name: string) => string {
  const counts = new Map<string, number>();
  return (name) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return `${name} ${count}`;
  };
}
