import { isDeepStrictEqual } from "node:util";
import { WavesmithError } from "../../domain/errors.ts";
import { buildIdForEvent, repeatedRequestId } from "../../domain/ids.ts";
import type { StoreTransaction } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// Events that people and other systems send are written to the outbox before they are sent, so that
// one which the engine loses can be sent again, and one which comes twice can be compared with the
// first.

export interface IncomingEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

export interface TakenEvent {
  readonly id: string;
  /** Whether it had been taken before, with the same data. */
  readonly repeated: boolean;
}

/**
 * Records events and sends them. Taking one again changes nothing; the same id with another name or
 * other data fails with `conflict`, and nothing of the list is sent. What the engine does not take
 * is forgotten: its sender is told.
 */
export async function takeEvents(
  ports: Pick<Ports, "store" | "events" | "clock">,
  events: readonly IncomingEvent[],
): Promise<TakenEvent[]> {
  const sentAt = ports.clock.now();
  const taken = await ports.store.transaction("take-events", async (transaction) => {
    const done: TakenEvent[] = [];
    for (const event of events) done.push(await record(transaction, event, sentAt));
    return done;
  });
  try {
    await ports.events.send(events);
  } catch (error) {
    const fresh = taken.filter(({ repeated }) => !repeated).map(({ id }) => id);
    if (fresh.length > 0) await ports.store.outbox.remove({ eventId: fresh, sentAt });
    throw error;
  }
  return taken;
}

/**
 * Sends requests again that have had no build for so long: the engine took and lost them. Each time
 * under another id, since a repeated one is dropped (W13); the build is the same, whichever
 * arrives.
 */
export async function resendLostRequests(
  ports: Pick<Ports, "store" | "clock" | "log">,
  projectIds: readonly string[] | "all",
): Promise<void> {
  const now = ports.clock.now();
  const sentBefore = new Date(now.getTime() - lostMs);
  for (const row of await ports.store.lostRequests(projectIds, sentBefore)) {
    const { seq, eventId, name, data, projectId, sentAt } = row;
    const isResent = await ports.store.transaction("resend-request", async (transaction) => {
      const [taken] = await transaction.outbox.update({ seq, sentAt }, { sentAt: now });
      if (taken === undefined) return false; // another process does it
      const repetition = { name, data, projectId, buildId: null };
      for (let epoch = 1; ; epoch += 1) {
        const id = repeatedRequestId(eventId, epoch);
        if ((await transaction.outbox.insertIfAbsent({ ...repetition, eventId: id })) !== null) return true;
      }
    });
    if (isResent) ports.log.warn(`the request ${eventId} has no build yet: it is sent again`);
  }
}

const lostMs = 120_000;

/** Notes that a request was answered without a build, so that it is not sent again. */
export async function settleRequest({ store }: Pick<Ports, "store">, requestId: string): Promise<void> {
  const buildId = buildIdForEvent(requestId);
  if ((await store.builds.find({ id: buildId })) === null)
    await store.outbox.update({ eventId: requestId }, { buildId });
}

async function record(transaction: StoreTransaction, event: IncomingEvent, sentAt: Date): Promise<TakenEvent> {
  const { id, name } = event;
  const data = JSON.parse(JSON.stringify(event.data)) as Record<string, unknown>;
  const projectId = String(data.projectId);
  const inserted = await transaction.outbox.insertIfAbsent({
    eventId: id,
    name,
    data,
    projectId,
    buildId: null,
    sentAt,
  });
  if (inserted !== null) return { id, repeated: false };
  const before = await transaction.outbox.get({ eventId: id });
  if (before.name === name && isDeepStrictEqual(before.data, data)) return { id, repeated: true };
  const difference = before.name === name ? "other data" : `the name ${before.name}`;
  throw new WavesmithError("conflict", `the event id ${id} was used before, with ${difference}`, {
    remedy: "give this event an id of its own, or leave the id out",
  });
}
