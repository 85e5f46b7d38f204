import { z } from "@hono/zod-openapi";
import { restorePointsOf } from "../../api/restore-points.ts";
import { snapshotJson } from "../../api/sandbox-use.ts";
import { sumJson } from "../../api/spending.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";
import { findProject } from "./projects.ts";

const dayMs = 24 * 3600 * 1000;
const days = z.strictObject({ days: z.coerce.number().int().min(1).max(366).default(30) });
const spendingReply = z
  .looseObject({
    day: z.string(),
    role: z.string(),
    model: z.string(),
    calls: z.number(),
    tokens: z.number(),
    usd: z.number().nullable(),
    knownUsd: z.number(),
    unpricedCalls: z.number(),
  })
  .openapi("SpendingPart");
const keptReply = z
  .looseObject({
    id: z.string(),
    state: z.string(),
    reason: z.string(),
    sizeBytes: z.number().nullable(),
    createdAt: z.string(),
    expiresAt: z.string(),
  })
  .openapi("KeptSnapshot");

const pointReply = z
  .looseObject({
    buildId: z.string(),
    wave: z.number(),
    commit: z.string(),
    isMain: z.boolean(),
    createdAt: z.string(),
  })
  .openapi("RestorePoint");

/** A project's history: its spending, its snapshots, and where main can go back to. */
export function projectHistoryEndpoints({ app }: ApiContext): Endpoint[] {
  const { store, clock } = app.ports;
  return [
    endpoint("get /projects/{id}/spending", {
      summary: "Show what a project spent on models in the last days, by day (UTC), role and model",
      params: idParams,
      query: days,
      reply: z.looseObject({ items: z.array(spendingReply) }),
      async handle({ params, query }) {
        const { id } = await findProject(app, params.id);
        const parts = await store.projectSpending(id, new Date(clock.now().getTime() - query.days * dayMs));
        const items = parts.map(({ day, role, model, calls, ...sum }) => ({
          day,
          role,
          model,
          calls,
          ...sumJson(sum),
        }));
        return { body: { items } };
      },
    }),
    endpoint("get /projects/{id}/restore-points", {
      summary: "List where main can be rolled back to, newest first; wave 0 is where a build began",
      params: idParams,
      reply: z.looseObject({ items: z.array(pointReply) }),
      async handle({ params }) {
        const { id } = await findProject(app, params.id);
        const points = await restorePointsOf(app.ports, id);
        const items = points.map(({ createdAt, ...point }) => ({ ...point, createdAt: createdAt.toISOString() }));
        return { body: { items } };
      },
    }),
    endpoint("get /projects/{id}/snapshots", {
      summary: "List the latest 100 snapshots of a project's volume, newest first",
      params: idParams,
      reply: z.looseObject({ items: z.array(keptReply) }),
      async handle({ params }) {
        const { id: projectId, name } = await findProject(app, params.id);
        const order = { by: "createdAt", descending: true, limit: 100 } as const;
        const rows = await store.snapshots.list({ projectId }, order);
        return { body: { items: rows.map((row) => snapshotJson(row, name)) } };
      },
    }),
  ];
}
