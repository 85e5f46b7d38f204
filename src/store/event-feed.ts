import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import type { OutboxRow } from "./port.ts";

// EF1. A reader that remembers only the id of the last event it saw must miss none. Ids are handed
// out before their transactions commit, so events are ordered by the transaction that wrote them,
// and those of transactions younger than the oldest that still runs are held back.
// EF2. A notification only wakes readers. One that is lost costs a poll interval, never an event.

/** Which events: those of one build, or of one project. */
export type FeedOf = { readonly buildId: string } | { readonly projectId: string };

export interface FeedPage {
  readonly events: readonly OutboxRow[];
  /** Whether more can be expected at once: the page was full, or later events are held back. */
  readonly hasMore: boolean;
}

export interface EventFeed {
  /**
   * The events after the one with this id, oldest first; from the first one for null. Null if the
   * subject has no event with this id.
   */
  read(of: FeedOf, after: number | null, limit: number): Promise<FeedPage | null>;
  /** Calls `wake` after each commit of events, by any process, until `stop` is called. */
  onCommit(wake: () => void): { stop(): void };
  close(): Promise<void>;
}

const eventChannel = "wavesmith_events";
const retryMs = 1_000;

const readText = (column: string): string => `
  select seq, event_id, name, project_id, build_id, data, created_at,
    committed_by < pg_snapshot_xmin(pg_current_snapshot()) as settled
  from outbox
  where ${column} = $1 and ($2::bigint is null or (committed_by, seq) >
    ((select committed_by from outbox where seq = $2), $2))
  order by committed_by, seq limit $3`;

/**
 * A restored dump carries the numbers of another server's transactions, which may lie ahead of this
 * one's. They keep their order before everything that follows.
 */
const adoptText = `update outbox set committed_by = pg_current_xact_id()
  where committed_by >= pg_snapshot_xmax(pg_current_snapshot())`;

/** Opens the feed of a migrated database. */
export function createEventFeed(pool: Pool, warn: (message: string) => void): EventFeed {
  const wakes = new Set<() => void>();
  const stopping = new AbortController();
  let listening: Promise<void> | null = null;
  let adopted: Promise<unknown> | null = null;
  const listen = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await listenOnce(pool, stopping.signal, () => {
          for (const wake of wakes) wake();
        });
      } catch (error) {
        if (!stopping.signal.aborted) warn(`live events are polled: ${(error as Error).message}`);
      }
      await delay(retryMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined); // stopped
    }
  };
  return {
    async read(of, after, limit) {
      adopted ??= pool.query(adoptText);
      await adopted;
      const [column, id] = "buildId" in of ? ["build_id", of.buildId] : ["project_id", of.projectId];
      if (after !== null) {
        const known = `select from outbox where seq = $1 and ${column} = $2`;
        if ((await pool.query({ text: known, values: [after, id] })).rowCount === 0) return null;
      }
      const { rows } = await pool.query<Record<string, unknown>>({
        name: `events_${column}`,
        text: readText(column),
        values: [id, after, limit],
      });
      const settled = rows.filter((row) => row.settled === true);
      return { events: settled.map(eventOf), hasMore: rows.length === limit || settled.length < rows.length };
    },
    onCommit(wake) {
      listening ??= listen();
      wakes.add(wake);
      return { stop: () => void wakes.delete(wake) };
    },
    async close() {
      stopping.abort();
      await listening;
    },
  };
}

const eventOf = (row: Record<string, unknown>): OutboxRow =>
  ({
    seq: Number(row.seq),
    eventId: row.event_id,
    name: row.name,
    projectId: row.project_id,
    buildId: row.build_id,
    data: row.data,
    createdAt: row.created_at,
    sentAt: null,
  }) as OutboxRow;

/**
 * Listens on its own connection; resolves when stopped, rejects when the connection is lost.
 */
async function listenOnce(pool: Pool, signal: AbortSignal, wake: () => void): Promise<void> {
  const client = await pool.connect();
  let lost: ((error: Error) => void) | undefined;
  try {
    const ended = new Promise<never>((_, reject) => {
      lost = reject;
    });
    ended.catch(() => undefined); // awaited below
    client.once("end", () => lost?.(new Error("the connection was lost")));
    client.on("notification", wake);
    await client.query(`listen ${eventChannel}`);
    wake(); // for what was committed before we listened
    const stopped = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([ended, stopped]);
  } finally {
    lost = undefined;
    client.release(true);
  }
}

/**
 * Returns what wakes the readers in every process. After the commit and not in it, because
 * transactions that notify commit one after another.
 */
export function createAnnouncing(pool: Pool): () => void {
  let isUnderWay = false;
  let isAskedAgain = false;
  const announce = async (): Promise<void> => {
    do {
      isAskedAgain = false;
      // Readers also look by themselves (EF2), so a lost database is not a failure here.
      await pool.query(`notify ${eventChannel}`).catch(() => undefined);
    } while (isAskedAgain);
    isUnderWay = false;
  };
  return () => {
    isAskedAgain = true;
    if (isUnderWay) return;
    isUnderWay = true;
    void announce();
  };
}
