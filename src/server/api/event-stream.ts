import { messageOf } from "../../domain/errors.ts";
import { problemWith } from "../problem.ts";
import { type Bell, createBell } from "./bell.ts";
import type { ApiCall, ApiContext } from "./endpoint.ts";

// LF1. A stream asks for the next events only when its client has taken the last ones, so a client
// that reads slowly costs one part and no more. One that takes nothing for four heartbeats although
// there is something to read is cut off.
// LF2. A stream asks at each heartbeat, and with events as often, whether its caller may still
// read.

interface StreamEvent {
  readonly id: number;
  readonly event: string;
  readonly data: unknown;
}

/** The next part of a stream; `isOver` ends it, `hasMore` makes it look again at once. */
export interface StreamPart {
  /** Encoded events. */
  readonly bytes: Uint8Array;
  readonly hasMore: boolean;
  readonly isOver: boolean;
}

export interface StreamSource {
  /** Returns what came since the last call. */
  next(): Promise<StreamPart>;
  stop(): void;
}

/** The reader of a stream. */
export type Reader = Pick<ApiCall<never, never, never>, "gone" | "isAllowed" | "hangUp">;

const pollMs = 1_000;
const soonMs = 20;
const mostStreams = 1_000;
let openStreams = 0;

/**
 * Answers with server-sent events until the source is over, the client goes, its key or session
 * ends, or the server stops. The source calls `wake` when there may be more.
 */
export function eventStream(
  { stopping, warn, heartbeatMs }: ApiContext,
  { gone, isAllowed, hangUp }: Reader,
  open: (wake: () => void) => StreamSource,
): Response {
  if (openStreams >= mostStreams) {
    return problemWith(429, "capacity", `${mostStreams} streams are open already`, { retryAfterMs: 10_000 });
  }
  openStreams += 1;
  const ended = new AbortController();
  const signal = AbortSignal.any([gone, stopping, ended.signal]);
  const bell = createBell();
  const source = open(bell.ring);
  const unread = createPatience(4 * heartbeatMs, hangUp);
  signal.addEventListener(
    "abort",
    () => {
      openStreams -= 1;
      source.stop();
      bell.ring();
    },
    { once: true },
  );
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
    const next = await nextBytes(source, { bell, signal, heartbeatMs });
    const bytes = (await mayRead()) ? next : null;
    if (bytes === null) return end(controller);
    if (isCancelled) return;
    unread.begin();
    controller.enqueue(bytes);
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        unread.end();
        return send(controller).catch((error: unknown) => {
          warn(`a stream of events ended: ${messageOf(error)}`);
          end(controller);
        });
      },
      cancel: () => {
        unread.end();
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
async function nextBytes(
  source: StreamSource,
  { bell, signal, heartbeatMs }: { bell: Bell; signal: AbortSignal; heartbeatMs: number },
): Promise<Uint8Array | null> {
  const heartbeatAt = performance.now() + heartbeatMs;
  while (!signal.aborted) {
    const { bytes, hasMore, isOver } = await source.next();
    if (bytes.length > 0) return bytes;
    if (isOver) return null;
    const leftMs = heartbeatAt - performance.now();
    if (leftMs <= 0) return heartbeat;
    await bell.rung(hasMore ? soonMs : Math.min(pollMs, leftMs));
  }
  return null;
}

const encoder = new TextEncoder();
const heartbeat = encoder.encode(": still here\n\n");

/** JSON has no line ends, so an event's data is one line whatever its texts say. */
export const encodeEvents = (events: readonly StreamEvent[]): Uint8Array =>
  encoder.encode(
    events.map(({ id, event, data }) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join(""),
  );

/** Calls `giveUp` when this long has passed since `begin` without an `end`. */
function createPatience(ms: number, giveUp: () => void): { begin(): void; end(): void } {
  let timer: NodeJS.Timeout | undefined;
  const end = (): void => clearTimeout(timer);
  return {
    begin() {
      end();
      timer = setTimeout(giveUp, ms).unref();
    },
    end,
  };
}
