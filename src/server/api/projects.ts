import { z } from "@hono/zod-openapi";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
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

type ProjectRow = Awaited<ReturnType<ServedApp["ports"]["store"]["projects"]["get"]>>;

const projectReply = z.looseObject({ id: z.string(), name: z.string(), createdAt: z.string() }).openapi("Project");
const show = ({ id, name, createdAt }: ProjectRow) => ({ id, name, createdAt });

/** Finds a project by its id or name. Fails with `not-found`. */
export async function findProject(
  { ports: { store }, tenant: { tenant } }: ServedApp,
  name: string,
): Promise<ProjectRow> {
  const row =
    (await store.projects.find({ id: name })) ?? (await store.projects.find({ id: projectIdFor(tenant, name) }));
  if (row !== null) return row;
  throw new WavesmithError("not-found", `there is no project ${name}`, { remedy: "POST /api/v1/projects creates one" });
}

export function projectEndpoints({ app }: ApiContext): Endpoint[] {
  const { store } = app.ports;
  return [
    endpoint("post /projects", {
      summary: "Make a project, or return the one with this name",
      body: z.strictObject({ name: z.string().trim().min(1).max(80) }),
      reply: projectReply,
      status: 201,
      async handle({ body: { name } }) {
        const { tenant, tenantId } = app.tenant;
        const id = projectIdFor(tenant, name);
        const made = await store.projects.insertIfAbsent({ id, tenantId, name });
        return { status: made === null ? 200 : 201, body: show(made ?? (await store.projects.get({ id }))) };
      },
    }),
    endpoint("get /projects", {
      summary: "List projects by name, or find the one with this name",
      query: pageQuery.extend({ name: z.string().max(80).optional() }),
      reply: pageOf(projectReply),
      async handle({ query: { cursor, limit, name } }) {
        const order = { by: "name" as const, limit: limit + 1, ...cursorValue(cursor, "string") };
        const rows = await store.projects.list(name === undefined ? {} : { name }, order);
        return { body: page(rows, { limit, cursorOf: ({ name }) => name, show }) };
      },
    }),
    endpoint("get /projects/{id}", {
      summary: "Show a project",
      params: idParams,
      reply: projectReply,
      handle: async ({ params }) => ({ body: show(await findProject(app, params.id)) }),
    }),
  ];
}
