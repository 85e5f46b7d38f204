import { z } from "@hono/zod-openapi";
import { eventJson } from "../../api/event-json.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { FedEvent, ServedFeed } from "../port.ts";
import { getBuild } from "./builds.ts";
import { type ApiCall, type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";
import { encodeEvents, eventStream } from "./event-stream.ts";
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
    return {
      async next() {
        const part = await next(after);
        after = part.after;
        return { ...part, isOver: isEnding && !part.hasMore };
      },
      stop,
    };
  });
}

/** Reads the events that there are, also those that a running transaction still holds back. */
const unfollowed = (of: Subject, source: Streams["source"]): Follower => ({
  next: (after) => readTable(of, after, source),
  stop: () => undefined,
});

/** Reads the id after which a stream goes on; null if there is none. Fails with `usage`. */
export function lastEventId(header: string | undefined): number | null {
  if (header === undefined || header === "") return null;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  throw new WavesmithError("usage", "the Last-Event-ID is not one that this stream gave");
}

const shown = (event: FedEvent): Uint8Array =>
  encodeEvents([{ id: event.seq, event: event.name, data: eventJson(event) }]);
