import { z } from "@hono/zod-openapi";
import { buildIdsLike, buildListJson, spentInAll } from "../../api/build-list.ts";
import { statusJson } from "../../api/build-status.ts";
import { viewJson } from "../../api/view-json.ts";
import { waitingPlanName } from "../../api/waiting-plan.ts";
import type { BuildView, StatusView } from "../../coordinator/build/build-view.ts";
import { buildAhead, createBuildReader, readStatus } from "../../coordinator/build/read-build.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { ServedApp } from "../port.ts";
import { buildReply, buildStatus, moment, spentSumReply } from "./build-replies.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageOf,
  pageQuery,
} from "./endpoint.ts";

export type ViewedBuild = BuildView["build"];

const buildRowReply = z
  .looseObject({
    id: z.string(),
    project: z.string(),
    projectId: z.string(),
    status: buildStatus,
    reason: z.string().nullable(),
    tasks: z.number(),
    head: z.string().nullable(),
    requestedBy: z.string().nullable(),
    createdAt: z.string(),
    startedAt: moment,
    endedAt: moment,
  })
  .openapi("BuildRow");

/** Finds a build by its id. Fails with `not-found`. */
export async function getBuild({ ports: { store } }: ServedApp, id: string): Promise<ViewedBuild> {
  const build = await store.builds.find({ id });
  if (build !== null) return build;
  throw new WavesmithError("not-found", `there is no build ${id}`, { remedy: "GET /api/v1/builds lists them" });
}

/** Reads a build with its tasks and waves. Fails with `not-found`. */
export async function readBuild(app: ServedApp, id: string): Promise<BuildView> {
  return createBuildReader(app.ports.store, id).read(await getBuild(app, id));
}

/** Where the server keeps a build's project, and the plan that waits for approval. */
function placesOf({ ports }: ServedApp, view: StatusView): { repository: string; planFile: string | null } {
  const name = waitingPlanName(view);
  const repository = ports.workspace.repositoryPath(view.build.projectId);
  return { repository, planFile: name === null ? null : ports.planFiles.path(name) };
}

/** Shows a build as it is now. Fails with `not-found`. */
export const showStatus = async (app: ServedApp, id: string) =>
  showBuild(app, await readStatus(app.ports.store, id, await getBuild(app, id)));

/** A build as `status --json` prints it, and what only a server's client needs. */
function showBuild(app: ServedApp, view: StatusView) {
  const { id, projectId, requestedBy, metadata } = view.build;
  const facts = { ...placesOf(app, view), interrupted: false, isServed: true, now: app.ports.clock.now() };
  return { id, projectId, requestedBy, metadata, ...statusJson(view, facts) };
}

const listQuery = pageQuery.extend({
  project: z.string().max(100).optional(),
  status: buildStatus.optional(),
  /** The beginning of an id. */
  id: z.string().max(100).optional(),
});

export function buildEndpoints({ app }: ApiContext): Endpoint[] {
  const { store } = app.ports;
  return [
    endpoint("get /builds", {
      summary: "List builds, newest first",
      query: listQuery,
      reply: pageOf(buildRowReply).extend({ spent: spentSumReply }),
      async handle({ query: { cursor, limit, project, status: wanted, id: start } }) {
        const where = {
          // By its id or name. As on a data directory, an unknown project has no builds.
          ...(project === undefined ? {} : { projectId: [project, projectIdFor(app.tenant.tenant, project)] }),
          ...(wanted === undefined ? {} : { status: wanted }),
          ...(start === undefined ? {} : { id: await buildIdsLike(store, start) }),
        };
        const order = { by: "position" as const, descending: true, limit: limit + 1, ...cursorValue(cursor, "number") };
        const rows = await store.builds.list(where, order);
        const { items, nextCursor } = page(rows, { limit, cursorOf: ({ position }) => position, show: (row) => row });
        const [listed, spent] = await Promise.all([buildListJson(store, items), spentInAll(store, items)]);
        return { body: { items: listed, nextCursor, spent } };
      },
    }),
    endpoint("get /builds/{id}", {
      summary: "Show a build with its waves and tasks",
      params: idParams,
      reply: buildReply,
      handle: async ({ params }) => ({ body: await showStatus(app, params.id) }),
    }),
    endpoint("get /builds/{id}/view", {
      summary: "Show all of a build that the command line shows; its fields may change with each release",
      params: idParams,
      reply: z.looseObject({
        view: z.record(z.string(), z.unknown()),
        repository: z.string(),
        planFile: z.string().nullable(),
        buildAhead: z.string().nullable(),
        lastEvent: z.number().nullable(),
      }),
      async handle({ params: { id } }) {
        const build = await getBuild(app, id);
        // The event before the view, so that what comes after it is not missed.
        const last = await store.outbox.find({ buildId: id }, { by: "seq", descending: true });
        const view = await createBuildReader(store, id).read();
        const ahead = build.status === "queued" ? await buildAhead(store, build) : null;
        const { repository, planFile } = placesOf(app, view);
        const body = { view: viewJson(view), repository, planFile };
        return { body: { ...body, buildAhead: ahead?.id ?? null, lastEvent: last?.seq ?? null } };
      },
    }),
  ];
}
