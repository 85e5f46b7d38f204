import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { problemWith } from "../problem.ts";
import type { ApiCall, ApiContext } from "./endpoint.ts";

// LF1. A stream asks for the next events only when its client has taken the last ones, so a client
// that reads slowly costs one part and no more. The server cuts off one that takes nothing.
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
  /** Returns what came since the last call; at once if it is at hand. */
  next(): StreamPart | Promise<StreamPart>;
  stop(): void;
}

/** The reader of a stream. */
export type Reader = Pick<ApiCall<never, never, never>, "gone" | "isAllowed">;

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
  { gone, isAllowed }: Reader,
  open: (wake: () => void) => StreamSource,
): Response {
  if (openStreams >= mostStreams) {
    return problemWith(429, "capacity", `${mostStreams} streams are open already`, { retryAfterMs: 10_000 });
  }
  openStreams += 1;
  const ended = new AbortController();
  const signal = AbortSignal.any([gone, stopping, ended.signal]);
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const end = (): void => ended.abort();
  const pump = createPump(open, {
    ...{ heartbeatMs, isAllowed, end },
    send: (bytes) => controller?.enqueue(bytes),
    fail(error) {
      warn(`a stream of events ended: ${messageOf(error)}`);
      end();
    },
  });
  const close = (): void => {
    openStreams -= 1;
    pump.stop();
    controller?.close();
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      start(own) {
        controller = own;
      },
      pull: () => pump.pull(),
      cancel() {
        controller = undefined; // A cancelled stream is closed already.
        end();
      },
    },
    { highWaterMark: 1 },
  );
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  const headers = { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" };
  return new Response(stream, { headers });
}

interface Sink extends Pick<Reader, "isAllowed"> {
  readonly heartbeatMs: number;
  send(bytes: Uint8Array): void;
  end(): void;
  fail(error: unknown): void;
}

/**
 * Sends the parts of a source, one at each `pull`. It makes no promise and no timer for a part that
 * the source has at hand: hundreds of followers take twenty parts a second each.
 */
function createPump(open: (wake: () => void) => StreamSource, sink: Sink): { pull(): void; stop(): void } {
  const { heartbeatMs } = sink;
  let isPulled = false;
  /** A look at the source, or a question about the caller, has not been answered yet. */
  let isWaiting = false;
  let isWoken = false;
  let isStopped = false;
  let sentAt = performance.now();
  let askedAt = sentAt;
  let soon: NodeJS.Timeout | undefined;
  const send = (bytes: Uint8Array): void => {
    isPulled = false;
    sentAt = performance.now();
    sink.send(bytes);
  };
  const sendIfAllowed = (bytes: Uint8Array): void => {
    if (performance.now() - askedAt < heartbeatMs) send(bytes);
    else {
      askedAt = performance.now();
      when(sink.isAllowed(), (isAllowed) => (isAllowed ? send(bytes) : sink.end()));
    }
  };
  const take = ({ bytes, hasMore, isOver }: StreamPart): void => {
    if (bytes.length > 0) sendIfAllowed(bytes);
    else if (isOver) sink.end();
    else if (isWoken) look();
    else if (hasMore) soon = setTimeout(look, soonMs);
  };
  const when = <Answer>(answer: Promise<Answer>, act: (answer: Answer) => void): void => {
    isWaiting = true;
    answer
      .then((given) => {
        isWaiting = false;
        if (!isStopped) act(given);
      })
      .catch(sink.fail);
  };
  const look = (): void => {
    isWoken = isWaiting;
    if (!isPulled || isWaiting || isStopped) return;
    clearTimeout(soon);
    attempt(() => {
      const part = source.next();
      if (part instanceof Promise) when(part, take);
      else take(part);
    });
  };
  const attempt = (act: () => void): void => {
    try {
      act();
    } catch (error) {
      sink.fail(error);
    }
  };
  const source = open(look);
  const tick = (): void => {
    const isSilent = performance.now() - sentAt >= heartbeatMs;
    if (isPulled && !isWaiting && isSilent) attempt(() => sendIfAllowed(heartbeat));
    else look();
  };
  const ticking = setInterval(tick, Math.min(pollMs, heartbeatMs)).unref();
  return {
    pull() {
      isPulled = true;
      look();
    },
    stop() {
      isStopped = true;
      clearInterval(ticking);
      clearTimeout(soon);
      source.stop();
    },
  };
}

const encoder = new TextEncoder();
const heartbeat = encoder.encode(": still here\n\n");

/** JSON has no line ends, so an event's data is one line whatever its texts say. */
export const encodeEvents = (events: readonly StreamEvent[]): Uint8Array =>
  encoder.encode(
    events.map(({ id, event, data }) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join(""),
  );

/** Reads the id after which a stream continues; null if there is none. Fails with `usage`. */
export function lastEventId(header: string | undefined): number | null {
  if (header === undefined || header === "") return null;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  throw new WavesmithError("usage", "the Last-Event-ID is not one that this stream gave");
}
