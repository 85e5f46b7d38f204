import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../domain/errors.ts";
import { problemWith } from "../problem.ts";
import type { ApiCall, ApiContext } from "./endpoint.ts";

// LF1. A stream reads the next events only when its client has taken the last ones, so a client
// that never reads costs one page and no more.
// LF2. A stream asks at each heartbeat, and with events as often, whether its caller may still
// read.

export interface StreamEvent {
  readonly id: number;
  readonly event: string;
  readonly data: unknown;
}

/** The next part of a stream; `isOver` ends it, `hasMore` makes it look again at once. */
export interface StreamPart {
  readonly events: readonly StreamEvent[];
  readonly hasMore: boolean;
  readonly isOver: boolean;
}

export interface StreamSource {
  /** Returns what came since the last call. */
  next(): Promise<StreamPart>;
  /** Calls `wake` when there may be more. */
  onMore(wake: () => void): { stop(): void };
}

/** The reader of a stream. */
export type Reader = Pick<ApiCall<never, never, never>, "gone" | "isAllowed">;

const pollMs = 1_000;
const soonMs = 20;
const mostStreams = 1_000;
let openStreams = 0;

/**
 * Answers with server-sent events until the source is over, the client goes, its key or session
 * ends, or the server stops.
 */
export function eventStream(
  { stopping, warn, heartbeatMs }: ApiContext,
  { gone, isAllowed }: Reader,
  source: StreamSource,
): Response {
  if (openStreams >= mostStreams) {
    return problemWith(429, "capacity", `${mostStreams} streams are open already`, { retryAfterMs: 10_000 });
  }
  openStreams += 1;
  const ended = new AbortController();
  const signal = AbortSignal.any([gone, stopping, ended.signal]);
  const bell = createBell();
  const listening = source.onMore(bell.ring);
  signal.addEventListener(
    "abort",
    () => {
      openStreams -= 1;
      listening.stop();
      bell.ring();
    },
    { once: true },
  );
  const encoder = new TextEncoder();
  let isCancelled = false; // A cancelled stream is closed already.
  const end = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    ended.abort();
    if (!isCancelled) controller.close();
  };
  let askedAt = performance.now();
  const mayRead = async (): Promise<boolean> => {
    if (performance.now() - askedAt < heartbeatMs) return true;
    askedAt = performance.now();
    return isAllowed();
  };
  const send = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    const next = await nextText(source, { bell, signal, heartbeatMs });
    const text = (await mayRead()) ? next : null;
    if (text === null) end(controller);
    else if (!isCancelled) controller.enqueue(encoder.encode(text));
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) =>
        send(controller).catch((error: unknown) => {
          warn(`a stream of events ended: ${messageOf(error)}`);
          end(controller);
        }),
      cancel: () => {
        isCancelled = true;
        ended.abort();
      },
    },
    { highWaterMark: 1 },
  );
  const headers = { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" };
  return new Response(stream, { headers });
}

/** Waits for events, or until a heartbeat is due; null when the stream is over. */
async function nextText(
  source: StreamSource,
  { bell, signal, heartbeatMs }: { bell: Bell; signal: AbortSignal; heartbeatMs: number },
): Promise<string | null> {
  const heartbeatAt = performance.now() + heartbeatMs;
  while (!signal.aborted) {
    const rung = bell.next();
    const { events, hasMore, isOver } = await source.next();
    if (events.length > 0) return events.map(textOf).join("");
    if (isOver) return null;
    const leftMs = heartbeatAt - performance.now();
    if (leftMs <= 0) return ": still here\n\n";
    const timer = new AbortController();
    await Promise.race([
      hasMore ? delay(soonMs) : rung,
      delay(Math.min(pollMs, leftMs), undefined, { signal: timer.signal }).catch(() => undefined), // rung first
    ]);
    timer.abort();
  }
  return null;
}

/** JSON has no line ends, so an event's data is one line whatever its texts say. */
const textOf = ({ id, event, data }: StreamEvent): string =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

interface Bell {
  ring(): void;
  /** Resolves at the next ring from now on. */
  next(): Promise<void>;
}

function createBell(): Bell {
  let waiting: (() => void)[] = [];
  return {
    ring() {
      for (const wake of waiting.splice(0)) wake();
    },
    next: () =>
      new Promise((resolve) => {
        waiting = [resolve];
      }),
  };
}
