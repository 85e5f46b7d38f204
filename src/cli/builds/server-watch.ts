import type { RecordedEvent } from "../../api/event-json.ts";
import type { BuildView } from "../../coordinator/build/read-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Asking } from "./ask-server.ts";
import type { BuildWatch } from "./port.ts";
import { inOurWords } from "./server-errors.ts";

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
  const following = (async () => {
    const options = { onLost: reportLost, signal: stop.signal, ...(after === null ? {} : { after }) };
    for await (const { event, data } of client.followBuild(buildId, options)) {
      const { type: _, at, eventId, ...rest } = data;
      waiting.push({ name: event, eventId: String(eventId), createdAt: new Date(String(at)), data: rest });
    }
  })();
  following.catch((error: unknown) => {
    failure = error;
  });
  let last: BuildView = first.view;
  return {
    async next() {
      if (failure !== null) await inOurWords(Promise.reject(failure));
      const events = waiting;
      waiting = [];
      return { events, isChanged: false };
    },
    async read() {
      try {
        last = (await sent(buildId)).view;
      } catch (error) {
        if (!(error instanceof WavesmithError && error.retryable)) throw error;
      }
      return last;
    },
    close: () => stop.abort(),
  };
}
