import { isDeepStrictEqual } from "node:util";
import type { Flow } from "../../functions/flow.ts";
import type { Config } from "../config.ts";
import { refuseForEvents } from "../coordinator/build/request/build-request.ts";
import type { Store } from "../store/port.ts";

/**
 * An Inngest server accepts events from anywhere, and a dev server's calls are not even signed. So
 * fields that only commands of this machine may set are read from the outbox. The embedded engine
 * gets events only from us.
 */
export const createVetting =
  (config: Config, store: Store): Flow["vetData"] =>
  async (requestId, data) => {
    if (config.engine.kind === "embedded") return data;
    const sent = await store.outbox.find({ eventId: requestId, name: "project/build.requested" });
    if (sent !== null) return sent.data;
    refuseForEvents(data, config);
    return data;
  };

/**
 * Whether an event may decide about a build. A dev server accepts events from anyone, so there the
 * event must be in the outbox.
 */
export const createSenderCheck =
  ({ engine }: Config, store: Store): Flow["isFromUs"] =>
  async ({ id, name, data }) => {
    if (engine.kind === "embedded" || !engine.isDev) return true;
    const sent = await store.outbox.find({ eventId: id, name });
    return isDeepStrictEqual(sent?.data, data);
  };
