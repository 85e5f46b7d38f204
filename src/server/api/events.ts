import { z } from "@hono/zod-openapi";
import { eventJson } from "../../api/event-json.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { FedEvent } from "../port.ts";
import { getBuild } from "./builds.ts";
import { type ApiCall, type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";
import { eventStream, type StreamEvent } from "./event-stream.ts";
import { findProject } from "./projects.ts";

const pageSize = 200;
const query = z.strictObject({
  after: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
  follow: z.enum(["true", "false"]).default("true"),
});

type Subject = { readonly buildId: string } | { readonly projectId: string };

export function eventEndpoints(api: ApiContext): Endpoint[] {
  const { app } = api;
  const common = { params: idParams, query, media: "text/event-stream", reply: z.string() };
  return [
    endpoint("get /builds/{id}/events", {
      ...common,
      summary: "Follow the events of a build (server-sent events; resumes after Last-Event-ID)",
      async handle(call) {
        const { id: buildId } = await getBuild(app, call.params.id);
        return follow(api, { buildId }, call);
      },
    }),
    endpoint("get /projects/{id}/events", {
      ...common,
      summary: "Follow the events of a project's builds and sandbox",
      async handle(call) {
        const { id: projectId } = await findProject(app, call.params.id);
        return follow(api, { projectId }, call);
      },
    }),
  ];
}

async function follow(api: ApiContext, of: Subject, call: ApiCall<unknown, z.infer<typeof query>, unknown>) {
  const { feed } = api.app;
  let after = lastEventId(call.header("last-event-id")) ?? call.query.after ?? null;
  // An answer with a status comes before the first event.
  if ((await feed.read(of, after, 1)) === null) throw unknownEvent(after);
  return eventStream(api, call, {
    async next() {
      const page = await feed.read(of, after, pageSize);
      if (page === null) throw unknownEvent(after);
      after = page.events.at(-1)?.seq ?? after;
      return {
        events: page.events.map(shown),
        hasMore: page.hasMore,
        isOver: call.query.follow === "false" && !page.hasMore,
      };
    },
    onMore: (wake) => feed.onCommit(wake),
  });
}

/** Reads the id after which a stream goes on; null if there is none. Fails with `usage`. */
export function lastEventId(header: string | undefined): number | null {
  if (header === undefined || header === "") return null;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  throw new WavesmithError("usage", "the Last-Event-ID is not one that this stream gave");
}

const unknownEvent = (after: number | null): WavesmithError =>
  new WavesmithError("not-found", `this stream has no event ${after}`, {
    remedy: "leave Last-Event-ID out to begin with the first event",
  });

const shown = (event: FedEvent): StreamEvent => ({ id: event.seq, event: event.name, data: eventJson(event) });
