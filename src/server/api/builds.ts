import { z } from "@hono/zod-openapi";
import { buildListJson } from "../../api/build-list.ts";
import { statusJson } from "../../api/build-status.ts";
import { type BuildView, createBuildReader } from "../../coordinator/build/read-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { ServedApp } from "../port.ts";
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
import { findProject } from "./projects.ts";

export type BuildRow = BuildView["build"];

const status = z.enum(["queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled"]);
const moment = z.string().nullable();
const buildRowReply = z
  .looseObject({
    id: z.string(),
    project: z.string(),
    projectId: z.string(),
    status,
    reason: z.string().nullable(),
    tasks: z.number(),
    head: z.string().nullable(),
    createdAt: z.string(),
    startedAt: moment,
    endedAt: moment,
  })
  .openapi("BuildRow");
export const buildReply = z
  .looseObject({
    id: z.string(),
    buildId: z.string(),
    project: z.string(),
    projectId: z.string(),
    status,
    phase: z.string(),
    reason: z.string().nullable(),
    createdAt: z.string(),
    startedAt: moment,
    endedAt: moment,
    waves: z.array(z.looseObject({ number: z.number(), status: z.string() })),
    tasks: z.array(z.looseObject({ id: z.string(), agent: z.string(), status: z.string() })),
    head: z.string().nullable(),
  })
  .openapi("Build");

/** Finds a build by its id. Fails with `not-found`. */
export async function getBuild({ ports: { store } }: ServedApp, id: string): Promise<BuildRow> {
  const build = await store.builds.find({ id });
  if (build !== null) return build;
  throw new WavesmithError("not-found", `there is no build ${id}`, { remedy: "GET /api/v1/builds lists them" });
}

/** Reads a build with its tasks and waves. Fails with `not-found`. */
export async function readBuild(app: ServedApp, id: string): Promise<BuildView> {
  await getBuild(app, id);
  return createBuildReader(app.ports.store, id).read();
}

/** A build as `status --json` prints it, and what only a server's client needs. */
export function showBuild({ ports }: ServedApp, view: BuildView) {
  const { id, projectId, requestedBy, metadata } = view.build;
  const repository = ports.workspace.repositoryPath(projectId);
  const facts = { interrupted: false, isServed: true, repository, now: ports.clock.now() };
  return { id, projectId, requestedBy, metadata, ...statusJson(view, facts) };
}

const listQuery = pageQuery.extend({ project: z.string().max(100).optional(), status: status.optional() });
export function buildEndpoints({ app }: ApiContext): Endpoint[] {
  const { store } = app.ports;
  return [
    endpoint("get /builds", {
      summary: "List builds, newest first",
      query: listQuery,
      reply: pageOf(buildRowReply),
      async handle({ query: { cursor, limit, project, status: wanted } }) {
        const where = {
          ...(project === undefined ? {} : { projectId: (await findProject(app, project)).id }),
          ...(wanted === undefined ? {} : { status: wanted }),
        };
        const order = { by: "position" as const, descending: true, limit: limit + 1, ...cursorValue(cursor, "number") };
        const rows = await store.builds.list(where, order);
        const { items, nextCursor } = page(rows, { limit, cursorOf: ({ position }) => position, show: (row) => row });
        return { body: { items: await buildListJson(store, items), nextCursor } };
      },
    }),
    endpoint("get /builds/{id}", {
      summary: "Show a build with its waves and tasks",
      params: idParams,
      reply: buildReply,
      handle: async ({ params }) => ({ body: showBuild(app, await readBuild(app, params.id)) }),
    }),
  ];
}
