import { createMask } from "../../coordinator/masking/masking.ts";
import { currentFacts, factsOf } from "../../domain/log-facts.ts";

/** The log of a server as one JSON object per line: time, level, message and what it is about. */
export interface JsonLog {
  info(message: string): void;
  warn(message: string): void;
  /** Logs an event that was sent, with the request's metadata on every line. */
  event(event: { readonly name: string; readonly id: string; readonly data: Readonly<Record<string, unknown>> }): void;
}

interface JsonLogOptions {
  readonly write: (line: string) => void;
  /** Values that must not appear in the log, by name. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly now?: () => Date;
}

/** Creates the log. A line is about what the code that logs it is working on. */
export function createJsonLog({ write, secrets, now = () => new Date() }: JsonLogOptions): JsonLog {
  const mask = createMask(secrets);
  const log = (level: "info" | "warn", message: string, facts: object): void => {
    const line = { time: now().toISOString(), level, message, ...facts };
    write(`${mask(JSON.stringify(line))}\n`);
  };
  return {
    info: (message) => log("info", message, currentFacts()),
    warn: (message) => log("warn", message, currentFacts()),
    event({ name, id, data }) {
      // Only what it says itself, because one piece of work also sends the events of others.
      const { requestedBy, metadata, reason } = data;
      log("info", name, { eventId: id, ...factsOf(data), requestedBy, metadata, reason });
    },
  };
}
