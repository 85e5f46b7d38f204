import { EventSourceParserStream } from "eventsource-parser/stream";
import { ApiError, errorOfAnswer } from "./api-error.ts";

/** An event of a stream; a later stream can continue after its `id`. */
export interface ServerEvent {
  readonly id: number;
  /** The event's name, such as `project/wave.passed`. */
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventsRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: (request: Request) => Promise<Response>;
  readonly after?: number;
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
  readonly onLost?: (error: Error) => void;
}

/**
 * The server sends a comment every 15 seconds, so a silence of this length is a lost connection.
 */
const silenceMs = 45_000;
const firstPauseMs = 250;
const longestPauseMs = 10_000;

/**
 * Yields the events of a stream, and opens it again after the last one if it is lost. It ends with
 * the signal, with an event `end` and, without `follow`, with the stream.
 */
export async function* followEvents(request: EventsRequest): AsyncGenerator<ServerEvent> {
  const { signal, onLost, follow = true } = request;
  let after = request.after ?? null;
  let pauseMs = firstPauseMs;
  while (!isAborted(signal)) {
    try {
      for await (const event of eventsAfter(request, after)) {
        after = event.id;
        pauseMs = firstPauseMs;
        yield event;
        if (event.event === "end") return;
      }
      if (!follow) return;
    } catch (error) {
      if (isAborted(signal)) return;
      if (!isPassing(error)) throw error;
      onLost?.(error as Error);
      if (error instanceof ApiError) pauseMs = Math.max(pauseMs, error.retryAfterMs ?? 0);
    }
    await pause(pauseMs, signal);
    pauseMs = Math.min(pauseMs * 2, longestPauseMs);
  }
}

const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

/** Whether the same request can succeed later. A refused one cannot. */
const isPassing = (error: unknown): boolean =>
  !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;

/** Yields the events of one connection, until it ends. */
async function* eventsAfter(request: EventsRequest, after: number | null): AsyncGenerator<ServerEvent> {
  const { url, headers, fetch, signal } = request;
  const silence = new AbortController();
  const watch = createWatch(() => silence.abort(new Error(`nothing received for ${silenceMs / 1000} seconds`)));
  const resume: Record<string, string> = after === null ? {} : { "last-event-id": String(after) };
  try {
    const response = await fetch(
      new Request(url, {
        headers: { accept: "text/event-stream", ...headers, ...resume },
        signal: signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]),
      }),
    );
    if (!response.ok) throw errorOfAnswer(response, await response.text());
    const events = alive(response, watch.reset).pipeThrough(new EventSourceParserStream()).getReader();
    for (;;) {
      const { done, value } = await events.read();
      if (done) return;
      yield { id: Number(value.id), event: value.event ?? "message", data: JSON.parse(value.data) };
    }
  } finally {
    watch.end();
    // A consumer that stops early closes the connection with it.
    silence.abort();
  }
}

/** The text of an answer; calls `heard` for each part of it. */
function alive(response: Response, heard: () => void): ReadableStream<string> {
  const listening = new TransformStream<string, string>({
    transform(text, controller) {
      heard();
      controller.enqueue(text);
    },
  });
  return response.body!.pipeThrough(new TextDecoderStream()).pipeThrough(listening);
}

function createWatch(late: () => void): { reset(): void; end(): void } {
  let timer = setTimeout(late, silenceMs);
  return {
    reset() {
      clearTimeout(timer);
      timer = setTimeout(late, silenceMs);
    },
    end: () => clearTimeout(timer),
  };
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
    if (isAborted(signal)) end();
  });
}
