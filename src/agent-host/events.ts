import type { AgentEvent, AgentEventBody } from "./protocol.ts";
import { createTraceFilter } from "./traces.ts";

const maxTextLength = 16 * 1024;
/** Text arrives a few letters at a time; it is reported line by line, or after a pause. */
const pauseMs = 250;
/** Shorter values are ordinary words, not secrets. */
const minSecretLength = 8;

export interface Events {
  report(event: AgentEventBody): void;
  /** Adds to the agent's current message or thought. */
  say(kind: "message" | "thought", text: string): void;
  /** Adds output that the agent itself printed; of stack traces, only the message is kept. */
  noise(text: string): void;
  /** Cuts a text, but not in the middle of a secret. */
  shorten(text: string, maxLength: number): string;
  flush(): void;
}

export interface EventsOptions {
  /**
   * Values that are never split between two events, so that a reader can recognize and redact them.
   */
  readonly secrets?: readonly string[];
  readonly now?: () => Date;
}

/** Writes events as lines. Pending text is written before any later event. */
export function createEvents(write: (line: string) => void, { secrets = [], now }: EventsOptions = {}): Events {
  let kind: "message" | "thought" = "message";
  let pending = "";
  let noisy = "";
  let timer: NodeJS.Timeout | null = null;
  const heldBack = createHeldBack(secrets);
  const put = (body: AgentEventBody): void => {
    const event: AgentEvent = { wavesmith: 1, at: (now?.() ?? new Date()).toISOString(), ...body };
    write(`${JSON.stringify(event)}\n`);
  };
  const putText = (text: string): void => {
    for (const piece of piecesOf(text, heldBack)) put({ kind, text: piece });
  };
  const readable = createTraceFilter();
  const putNoise = (text: string): void => {
    for (const line of text.split("\n")) {
      const words = line === "" ? null : readable(line);
      if (words !== null) write(`| ${words.slice(0, maxTextLength)}\n`);
    }
  };
  /** Writes all pending text, or all except what may be the beginning of a secret. */
  const empty = (all: boolean): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const [text, noise] = [pending, noisy];
    const ends = [text, noise].map((part) => part.length - (all ? 0 : heldBack(part)));
    [pending, noisy] = [text.slice(ends[0]), noise.slice(ends[1])];
    putText(text.slice(0, ends[0]));
    putNoise(noise.slice(0, ends[1]));
  };
  const soon = (): void => {
    if (pending !== "" || noisy !== "") timer ??= setTimeout(() => empty(false), pauseMs).unref();
  };
  const flush = (): void => empty(true);
  return {
    flush,
    shorten: (text, maxLength) => shorten(text, maxLength, heldBack),
    report(event) {
      flush();
      put(event);
    },
    say(next, text) {
      if (next !== kind || noisy !== "") flush();
      kind = next;
      pending += text;
      const ready = pending.length - heldBack(pending);
      const end = ready > maxTextLength ? ready : pending.lastIndexOf("\n", ready - 1);
      if (end > 0 || (end === 0 && ready > 0)) {
        putText(pending.slice(0, end));
        pending = pending.slice(end).replace(/^\n/, "");
      }
      soon();
    },
    noise(text) {
      if (pending !== "") flush();
      noisy += text;
      const ready = noisy.length - heldBack(noisy);
      const end = ready > maxTextLength ? ready : noisy.lastIndexOf("\n", ready - 1) + 1;
      putNoise(noisy.slice(0, end));
      noisy = noisy.slice(end);
      soon();
    },
  };
}

function shorten(text: string, maxLength: number, heldBack: (text: string) => number): string {
  if (text.length <= maxLength) return text;
  const piece = text.slice(0, maxLength - 1);
  return `${piece.slice(0, piece.length - heldBack(piece))}…`;
}

/** Cuts a text into pieces that fit into an event, but not in the middle of a secret. */
function* piecesOf(text: string, heldBack: (text: string) => number): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const piece = text.slice(at, at + maxTextLength);
    const isLast = at + piece.length === text.length;
    const size = isLast ? piece.length : piece.length - heldBack(piece) || piece.length;
    yield piece.slice(0, size);
    at += size;
  }
}

/** Counts the characters at the end of a text that may be the beginning of one of these values. */
function createHeldBack(values: readonly string[]): (text: string) => number {
  const long = [...new Set(values)].filter((value) => value.length >= minSecretLength);
  return (text) => {
    let most = 0;
    const last = text.at(-1);
    for (const value of long) {
      for (let length = Math.min(value.length - 1, text.length); length > most; length -= 1) {
        // Called for every few letters, so the last letter is compared first.
        if (value[length - 1] === last && text.endsWith(value.slice(0, length))) most = length;
      }
    }
    return most;
  };
}
