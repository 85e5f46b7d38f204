import { z } from "@hono/zod-openapi";
import { scheduleJson } from "../../api/schedules.ts";
import { pauseSchedule, removeSchedule, resumeSchedule } from "../../coordinator/schedule/resume-schedule.ts";
import { standingOf } from "../../coordinator/schedule/standing-request.ts";
import { storeSchedules } from "../../coordinator/schedule/store-schedules.ts";
import { type ApiContext, type Endpoint, endpoint, idParams, planEndpoint } from "./endpoint.ts";
import { findProject } from "./projects.ts";

const scheduleReply = z
  .looseObject({
    id: z.string(),
    project: z.string(),
    projectId: z.string(),
    name: z.string(),
    cron: z.string(),
    timezone: z.string(),
    status: z.enum(["active", "paused"]),
    nextAt: z.string().nullable(),
    failures: z.number(),
    lastBuildId: z.string().nullable(),
    lastRunAt: z.string().nullable(),
    note: z.string().nullable(),
  })
  .openapi("Schedule");
const listReply = z.looseObject({ items: z.array(scheduleReply) });

/** The schedules that start builds by the clock. */
export function scheduleEndpoints({ app }: ApiContext): Endpoint[] {
  const { ports } = app;
  const { store } = ports;
  const show = async (row: Parameters<typeof scheduleJson>[0]) =>
    scheduleJson(row, (await store.projects.get({ id: row.projectId })).name);
  return [
    endpoint("get /schedules", {
      summary: "List what starts builds by the clock, the next one first",
      reply: listReply,
      async handle() {
        const rows = await store.schedules.list({}, { by: "nextAt", limit: 500 });
        return { body: { items: await Promise.all(rows.map(show)) } };
      },
    }),
    planEndpoint("put /projects/{id}/schedules", {
      summary: "Make the schedules that people added to a project those of a wavesmith.yaml with its plan inside",
      params: idParams,
      reply: listReply,
      async handle({ params, body: { text } }) {
        const { id: projectId } = await findProject(app, params.id);
        const standing = await standingOf(ports, text, async () => null);
        const rows = await storeSchedules(ports, { projectId, origin: "file" }, standing);
        return { body: { items: await Promise.all(rows.map(show)) } };
      },
    }),
    endpoint("post /schedules/{id}/pause", {
      summary: "Pause a schedule",
      params: idParams,
      reply: scheduleReply,
      handle: async ({ params: { id } }) => ({ body: await show(await pauseSchedule(ports, id)) }),
    }),
    endpoint("post /schedules/{id}/resume", {
      summary: "Run a paused schedule again, from its next time on",
      params: idParams,
      reply: scheduleReply,
      handle: async ({ params: { id } }) => ({ body: await show(await resumeSchedule(ports, id)) }),
    }),
    endpoint("delete /schedules/{id}", {
      summary: "Remove a schedule that a person added",
      params: idParams,
      reply: z.looseObject({ id: z.string() }),
      async handle({ params: { id } }) {
        await removeSchedule(ports, id);
        return { body: { id } };
      },
    }),
  ];
}
