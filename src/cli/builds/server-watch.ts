import { setTimeout as delay } from "node:timers/promises";
import type { RecordedEvent } from "../../api/event-json.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Asking } from "../server/ask-server.ts";
import { inOurWords } from "../server/server-errors.ts";
import type { BuildWatch } from "./port.ts";

/** How long a view waits for its events, which come over another connection. */
const arrivalMs = 5_000;

/**
 * Watches a build of a server over one stream of its events. A server that is away for a while is
 * waited for: what was seen last is shown meanwhile, and no event is missed.
 */
export async function watchServer(
  { client, sent, reportLost }: Asking,
  buildId: string,
  from: "first" | "now",
): Promise<BuildWatch> {
  const first = await sent(buildId);
  const after = from === "now" ? first.lastEvent : null;
  const stop = new AbortController();
  let waiting: RecordedEvent[] = [];
  let failure: unknown = null;
  let lastSeen = after ?? 0;
  const following = (async () => {
    const options = { onLost: reportLost, signal: stop.signal, ...(after === null ? {} : { after }) };
    for await (const { id, event, data } of client.followBuild(buildId, options)) {
      const { type: _, at, eventId, ...rest } = data;
      waiting.push({ name: event, eventId: String(eventId), createdAt: new Date(String(at)), data: rest });
      lastSeen = id;
    }
  })();
  following.catch((error: unknown) => {
    failure = error;
  });
  let last: BuildView = first.view;
  // Otherwise the last events could arrive after the view in which the build ends, and be lost.
  const arrived = async (event: number | null): Promise<void> => {
    const deadlineMs = performance.now() + arrivalMs;
    while (event !== null && lastSeen < event && failure === null && performance.now() < deadlineMs) await delay(10);
  };
  return {
    async next() {
      if (failure !== null) await inOurWords(Promise.reject(failure));
      const events = waiting;
      waiting = [];
      return { events, isChanged: false };
    },
    async read() {
      try {
        const { view, lastEvent } = await sent(buildId);
        await arrived(lastEvent);
        last = view;
      } catch (error) {
        if (!(error instanceof WavesmithError && error.retryable)) throw error;
      }
      return last;
    },
    close: () => stop.abort(),
  };
}
