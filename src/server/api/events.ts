import { z } from "@hono/zod-openapi";
import { eventJson } from "../../api/event-json.ts";
import type { FedEvent, ServedFeed } from "../port.ts";
import { getBuild } from "./builds.ts";
import { type ApiCall, type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";
import { encodeEvents, eventStream, lastEventId, type StreamPart } from "./event-stream.ts";
import type { NextEvents } from "./event-window.ts";
import { findProject } from "./projects.ts";
import { createFollowing, type Follower, readTable, type Subject, unknownEvent } from "./shared-events.ts";

const query = z.strictObject({
  after: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
  follow: z.enum(["true", "false"]).default("true"),
});

interface Streams {
  readonly api: ApiContext;
  readonly source: { readonly feed: ServedFeed; readonly bytesOf: (event: FedEvent) => Uint8Array };
  readonly followers: ReturnType<typeof createFollowing>;
}

export function eventEndpoints(api: ApiContext): Endpoint[] {
  const { app } = api;
  const source = { feed: app.feed, bytesOf: shown };
  const streams = { api, source, followers: createFollowing({ ...source, warn: api.warn }) };
  const common = { params: idParams, query, media: "text/event-stream", reply: z.string() };
  return [
    endpoint("get /builds/{id}/events", {
      ...common,
      summary: "Follow the events of a build (server-sent events; resumes after Last-Event-ID)",
      async handle(call) {
        const { id: buildId } = await getBuild(app, call.params.id);
        return follow(streams, { buildId }, call);
      },
    }),
    endpoint("get /projects/{id}/events", {
      ...common,
      summary: "Follow the events of a project's builds and sandbox",
      async handle(call) {
        const { id: projectId } = await findProject(app, call.params.id);
        return follow(streams, { projectId }, call);
      },
    }),
  ];
}

/** Answers with the events after the one that the request names. */
async function follow(
  { api, source, followers }: Streams,
  of: Subject,
  call: ApiCall<unknown, z.infer<typeof query>, unknown>,
): Promise<Response> {
  let after = lastEventId(call.header("last-event-id")) ?? call.query.after ?? null;
  // An answer with a status comes before the first event.
  if ((await source.feed.read(of, after, 1)) === null) throw unknownEvent(after);
  const isEnding = call.query.follow === "false";
  return eventStream(api, call, (wake) => {
    const { next, stop } = isEnding ? unfollowed(of, source) : followers(of, wake);
    const take = (part: NextEvents): StreamPart => {
      after = part.after;
      return { bytes: part.bytes, hasMore: part.hasMore, isOver: isEnding && !part.hasMore };
    };
    return {
      next() {
        const part = next(after);
        return part instanceof Promise ? part.then(take) : take(part);
      },
      stop,
    };
  });
}

/** Reads all events, including those that a running transaction still holds back. */
const unfollowed = (of: Subject, source: Streams["source"]): Follower => ({
  next: (after) => readTable(of, after, source),
  stop: () => undefined,
});

const shown = (event: FedEvent): Uint8Array =>
  encodeEvents([{ id: event.seq, event: event.name, data: eventJson(event) }]);
