import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { FedEvent, ServedFeed } from "../port.ts";
import { createEventWindow, type NextEvents } from "./event-window.ts";
import { createWaker } from "./waker.ts";

// SH1. The followers of a subject share one reader: it reads each new event once, turns it into
// bytes once, and keeps the last ones in a window. A follower is only a position. It takes what
// comes after that from the window, or from the table if the window does not have its position. So
// nothing is lost or repeated between the two, and a slow follower costs no memory.
// SH2. A follower that has read the table to its end may be ahead of the window. It waits for a
// read that begins after its own; if followers went on reading, they would never meet the reader.
// SH3. A reader that fails clears its window. Followers then read the table themselves, and find
// out what is wrong.

/** Whose events: those of one build, or of one project. */
export type Subject = { readonly buildId: string } | { readonly projectId: string };

export interface Follower {
  /**
   * Returns the events after a position, at once if the window has them. Fails with `not-found` if
   * the subject has no such event.
   */
  next(after: number | null): NextEvents | Promise<NextEvents>;
  stop(): void;
}

interface ReaderOptions {
  readonly feed: ServedFeed;
  readonly bytesOf: (event: FedEvent) => Uint8Array;
  readonly warn: (message: string) => void;
}

interface SharedReader {
  readonly wakes: Set<() => void>;
  /** The function `next` of one more follower. */
  follower(): Follower["next"];
  stop(): void;
}

const pageSize = 200;
const pollMs = 1_000;
/** How long events are collected: a busy build costs a follower at most 20 writes a second. */
const collectMs = 50;
const nothing = new Uint8Array();

/** Returns what adds a follower of a subject; `wake` is called when there may be more for it. */
export function createFollowing(options: ReaderOptions): (of: Subject, wake: () => void) => Follower {
  const readers = new Map<string, SharedReader>();
  return (of, wake) => {
    const key = JSON.stringify(of);
    const reader = readers.get(key) ?? createSharedReader(of, options);
    readers.set(key, reader);
    reader.wakes.add(wake);
    return {
      next: reader.follower(),
      stop() {
        reader.wakes.delete(wake);
        if (reader.wakes.size > 0) return;
        reader.stop();
        if (readers.get(key) === reader) readers.delete(key);
      },
    };
  };
}

function createSharedReader(of: Subject, { feed, bytesOf, warn }: ReaderOptions): SharedReader {
  const wakes = new Set<() => void>();
  const window = createEventWindow();
  let isStopped = false;
  const waker = createWaker();
  const committed = feed.onCommit(waker.wake);
  let readsBegun = 0;
  let readsDone = 0;
  const wakeAll = (): void => {
    for (const wake of wakes) wake();
  };
  /** Reads from the window's end on, until it fails or nobody follows. */
  const readOn = async (): Promise<void> => {
    for (let end = window.end(); end !== undefined && !isStopped; end = window.end()) {
      readsBegun += 1;
      const page = await feed.read(of, end, pageSize);
      readsDone = readsBegun;
      if (page === null) throw unknownEvent(end);
      window.add(page.events.map((event) => ({ seq: event.seq, bytes: bytesOf(event) })));
      if (page.events.length > 0) wakeAll();
      await delay(collectMs);
      if (!page.hasMore) await waker.wait(pollMs);
    }
  };
  const startAt = (position: number | null): void => {
    if (window.end() !== undefined || isStopped) return;
    window.reset(position);
    void readOn().catch((error: unknown) => {
      if (isStopped) return;
      warn(`the followers of ${Object.values(of)[0]} read by themselves: ${messageOf(error)}`);
      window.clear();
      wakeAll();
    });
  };
  const follower = (): Follower["next"] => {
    let awaitedRead = 0;
    const readOwn = async (after: number | null): Promise<NextEvents> => {
      const next = await readTable(of, after, { feed, bytesOf });
      if (next.isFull) return next;
      // Not only when there is nothing: on a busy build that may never be.
      startAt(next.after);
      awaitedRead = readsBegun + 1;
      return { ...next, hasMore: false };
    };
    return (after) => {
      const kept = window.after(after);
      if (kept !== null) return kept;
      if (window.end() !== undefined && readsDone < awaitedRead) return { bytes: nothing, after, hasMore: false };
      return readOwn(after);
    };
  };
  return {
    wakes,
    follower,
    stop() {
      isStopped = true;
      committed.stop();
      waker.wake();
    },
  };
}

/** Reads the events after a position from the table. */
export async function readTable(
  of: Subject,
  after: number | null,
  { feed, bytesOf }: Omit<ReaderOptions, "warn">,
): Promise<NextEvents & { readonly isFull: boolean }> {
  const page = await feed.read(of, after, pageSize);
  if (page === null) throw unknownEvent(after);
  const { events, hasMore } = page;
  const bytes = Buffer.concat(events.map(bytesOf));
  return { bytes, after: events.at(-1)?.seq ?? after, hasMore, isFull: events.length === pageSize };
}

export const unknownEvent = (after: number | null): WavesmithError =>
  new WavesmithError("not-found", `this stream has no event ${after}`, {
    remedy: "leave Last-Event-ID out to begin with the first event",
  });
