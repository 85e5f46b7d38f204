import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelMessage } from "ai";

// BS1. A conversation that once overflowed its model's window is never loaded again, because every
// later attempt would fail the same way.

interface Saved {
  readonly messages: ModelMessage[];
  /** It overflowed, and could not be made to fit. */
  readonly overflowed: boolean;
}

export interface SavedSessions {
  save(sessionId: string, saved: Saved): void;
  /** Returns the conversation; null if there is none that can be continued. */
  load(sessionId: string): ModelMessage[] | null;
}

/** Keeps conversations in the agent's home. */
export function createSavedSessions(home: string): SavedSessions {
  const folder = join(home, "builtin-sessions");
  const fileOf = (sessionId: string): string => join(folder, `${sessionId.replace(/[^\w-]/g, "_")}.json`);
  return {
    save(sessionId, saved) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const file = fileOf(sessionId);
      writeFileSync(`${file}.tmp`, JSON.stringify(saved), { mode: 0o600 });
      renameSync(`${file}.tmp`, file);
    },
    load(sessionId) {
      const file = fileOf(sessionId);
      if (!existsSync(file)) return null;
      const saved: unknown = JSON.parse(readFileSync(file, "utf8"));
      // Earlier versions saved the messages alone.
      if (Array.isArray(saved)) return saved as ModelMessage[];
      const { messages, overflowed } = saved as Saved;
      return overflowed ? null : messages;
    },
  };
}
