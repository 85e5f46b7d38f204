import { pollForge } from "../coordinator/outside/poll-forge.ts";
import type { Ports } from "../coordinator/port.ts";
import { messageOf } from "../domain/errors.ts";
import type { IssueTriggers } from "../webhooks/port.ts";
import { readGithub } from "../webhooks/read-github.ts";
import { createRepetition, type Repetition } from "./repetition.ts";

interface PollSettings {
  readonly everyMs: number;
  readonly triggers: IssueTriggers;
}

/**
 * Creates the loop that asks GitHub for news, where its webhooks cannot reach us. Of several
 * processes on one database, one polls at a time.
 */
export function createPolling(
  ports: Ports,
  { everyMs, triggers }: PollSettings,
  warn: (message: string) => void,
): Repetition {
  const look = () => pollForge(ports, (event, payload) => readGithub(event, payload, triggers));
  return createRepetition(async () => {
    try {
      const until = await ports.store.alone("poll github", look, { wait: false });
      return until === null ? everyMs : Math.max(everyMs, until.getTime() - Date.now());
    } catch (error) {
      warn(`GitHub was not polled: ${messageOf(error)}`);
      return everyMs;
    }
  });
}
