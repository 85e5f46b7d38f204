import type { AgentEvent, AgentEventBody } from "./protocol.ts";

const longestText = 16 * 1024;
/** Text comes in pieces of a few letters; it is told by the line, or when it pauses. */
const pauseMs = 250;

export interface Events {
  tell(event: AgentEventBody): void;
  /** Adds to what the agent is saying or thinking. */
  say(kind: "message" | "thought", text: string): void;
  /** What the agent itself printed. */
  noise(text: string): void;
  flush(): void;
}

/** Writes events as lines. What was said is told before anything that follows it. */
export function createEvents(write: (line: string) => void, now: () => Date = () => new Date()): Events {
  let kind: "message" | "thought" = "message";
  let pending = "";
  let timer: NodeJS.Timeout | null = null;
  const put = (body: AgentEventBody): void => {
    const event: AgentEvent = { wavesmith: 1, at: now().toISOString(), ...body };
    write(`${JSON.stringify(event)}\n`);
  };
  const flush = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    for (let at = 0; at < pending.length; at += longestText) {
      put({ kind, text: pending.slice(at, at + longestText) });
    }
    pending = "";
  };
  return {
    flush,
    tell(event) {
      flush();
      put(event);
    },
    say(next, text) {
      if (next !== kind) flush();
      kind = next;
      pending += text;
      const end = pending.lastIndexOf("\n");
      if (end >= 0 || pending.length > longestText) {
        const rest = pending.length > longestText ? "" : pending.slice(end + 1);
        pending = pending.slice(0, pending.length - rest.length).replace(/\n$/, "");
        flush();
        pending = rest;
      }
      if (pending !== "") timer ??= setTimeout(flush, pauseMs).unref();
    },
    noise(text) {
      flush();
      for (const line of text.split("\n")) {
        if (line !== "") write(`| ${line.slice(0, longestText)}\n`);
      }
    },
  };
}
