import { pollForge } from "../coordinator/outside/poll-forge.ts";
import type { Ports } from "../coordinator/port.ts";
import { messageOf } from "../domain/errors.ts";
import type { IssueTriggers } from "../webhooks/port.ts";
import { readGithub } from "../webhooks/read-github.ts";

/** Asks GitHub for news, where its webhooks cannot reach us. */
export interface Polling {
  start(): void;
  stop(): Promise<void>;
}

interface PollSettings {
  /** Null: we do not ask. */
  readonly everyMs: number | null;
  readonly triggers: IssueTriggers;
}

/** Creates the loop that polls. Of several processes on one database, one polls at a time. */
export function createPolling(
  ports: Ports,
  { everyMs, triggers }: PollSettings,
  warn: (message: string) => void,
): Polling {
  let timer: NodeJS.Timeout | null = null;
  let looking: Promise<unknown> = Promise.resolve();
  const look = () => pollForge(ports, (event, payload) => readGithub(event, payload, triggers));
  const tick = (usualMs: number): void => {
    let waitMs = usualMs;
    looking = ports.store
      .alone("poll github", look, { wait: false })
      .then((until) => {
        if (until !== null) waitMs = Math.max(usualMs, until.getTime() - Date.now());
      })
      .catch((error: unknown) => warn(`GitHub was not polled: ${messageOf(error)}`))
      .finally(() => {
        if (timer !== null) timer = setTimeout(tick, waitMs, usualMs);
      });
  };
  return {
    start() {
      if (everyMs !== null) timer = setTimeout(tick, 0, everyMs);
    },
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await looking;
    },
  };
}
