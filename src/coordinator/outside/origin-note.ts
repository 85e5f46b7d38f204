import type { BuildRow, StoreTransaction, Tables } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// OG1. What a comment, a review or a command asks for is done once: the change and the note of it,
// under the build's lock, are one commit. A process that dies before it stores its step repeats the
// step, perhaps when the next wave waits already; then the note answers.

interface Done {
  /** Identifies the comment, review or command; without it, nothing is noted. */
  readonly origin: string | undefined;
  readonly event: string;
  /** The outcome in words. */
  readonly answer: string;
}

/** The note of a `retry`, which makes a build run again or delivers it again. */
export const retriedNote = { event: "forge/command.given", answer: "retried" } as const;

const idOf = (origin: string): string => `done:${origin}`;

/** Finds the outcome of this origin; null if it has not been carried out. */
export async function findNote(store: Pick<Tables, "webhookDeliveries">, origin?: string): Promise<string | null> {
  if (origin === undefined) return null;
  return (await store.webhookDeliveries.find({ id: idOf(origin) }))?.answer ?? null;
}

/** Notes what this transaction does for an origin, which holds the build's lock (OG1). */
export async function insertNote(
  transaction: StoreTransaction,
  { clock }: Pick<Ports, "clock">,
  { tenantId }: BuildRow,
  { origin, event, answer }: Done,
): Promise<void> {
  if (origin === undefined) return;
  const receivedAt = clock.now();
  await transaction.webhookDeliveries.insert({ id: idOf(origin), tenantId, event, answer, receivedAt });
}
