import { isDeepStrictEqual } from "node:util";
import { WavesmithError } from "../../../domain/errors.ts";
import type { DomainEvent } from "../../../domain/events/events.ts";
import { buildIdForEvent, repeatedRequestId } from "../../../domain/events/request-ids.ts";
import type { OutboxRow, StoreTransaction } from "../../../store/port.ts";
import type { Ports } from "../../port.ts";

// Events from people and other systems are written to the outbox before they are sent, so that we
// can resend one that the engine loses and compare one that arrives twice.

export interface TakenEvent {
  readonly id: string;
  /** Whether the same event had already been recorded. */
  readonly repeated: boolean;
}

/**
 * Records events and sends them. A repeated event changes nothing. If an id was used with another
 * name or other data, it fails with `conflict` and sends none of the list. Events that the engine
 * rejects are deleted, and the sender gets the error.
 */
export async function takeEvents(
  ports: Pick<Ports, "store" | "events" | "clock">,
  events: readonly DomainEvent[],
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
 * Resends requests that still have no build after this time, because the engine lost them. Each
 * resend has a new id, because a repeated id is dropped (W13); all of them lead to the same build.
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

/** Records that a request ended without a build, so that it is not sent again. */
export async function settleRequest({ store }: Pick<Ports, "store">, requestId: string): Promise<void> {
  const buildId = buildIdForEvent(requestId);
  if ((await store.builds.find({ id: buildId })) === null)
    await store.outbox.update({ eventId: requestId }, { buildId });
}

async function record(transaction: StoreTransaction, event: DomainEvent, sentAt: Date): Promise<TakenEvent> {
  const { id, name } = event;
  const data = JSON.parse(JSON.stringify(event.data)) as OutboxRow["data"];
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
    remedy: "give this event a new id, or leave the id out",
  });
}
