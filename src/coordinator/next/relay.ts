import type { OutboxRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// Events leave the outbox in the order of their commits. After a crash between sending and marking,
// an event is sent again under the same id, which changes nothing (W13).

export interface Relay {
  /** Resolves once every event committed before this call is sent. */
  flush(): Promise<void>;
}

/**
 * Sends the outbox of these projects, one drain at a time, so that a process never blocks itself.
 */
export function createRelay(ports: Pick<Ports, "store" | "events">, projects: () => "all" | readonly string[]): Relay {
  let last: Promise<void> = Promise.resolve();
  let waiting: Promise<void> | null = null;
  const drain = async (): Promise<void> => {
    const deliver = (rows: OutboxRow[]): Promise<void> =>
      ports.events.send(rows.map(({ name, eventId, data }) => ({ name, id: eventId, data })));
    waiting = null; // later callers may have committed after this drain started
    while ((await ports.store.drainOutbox(projects(), deliver)) > 0);
  };
  return {
    flush() {
      // A drain that has not started yet will see everything its callers have committed.
      if (waiting !== null) return waiting;
      waiting = last.then(drain, drain);
      last = waiting;
      return waiting;
    },
  };
}
