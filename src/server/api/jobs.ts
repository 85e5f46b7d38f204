import { z } from "@hono/zod-openapi";
import { jobOutputs, outputAfter } from "../../api/job-output.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { getBuild } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const jobParams = idParams.extend({ job: z.string().min(1).max(300) });
const outputQuery = z.strictObject({
  after: z.coerce.number().int().min(-1).max(Number.MAX_SAFE_INTEGER).default(-1),
  limit: z.coerce.number().int().min(1).max(200).default(100),
});
const chunk = z.looseObject({ at: z.string(), startsAt: z.number(), text: z.string() });
const job = z
  .looseObject({
    jobKey: z.string(),
    label: z.string(),
    taskKey: z.string().nullable(),
    outputBytes: z.number(),
    ended: z.boolean(),
  })
  .openapi("Job");

/** The output of everything that a build ran: agents, fixes, gates and previews. */
export function jobEndpoints({ app }: ApiContext): Endpoint[] {
  const { store } = app.ports;
  return [
    endpoint("get /builds/{id}/jobs", {
      summary: "List everything that a build ran, oldest first, with how many bytes it printed",
      params: idParams,
      reply: z.looseObject({ items: z.array(job) }),
      async handle({ params }) {
        const { id } = await getBuild(app, params.id);
        return { body: { items: await jobOutputs(store, id) } };
      },
    }),
    endpoint("get /builds/{id}/jobs/{job}/output", {
      summary: "Read parts of a job's output that begin after an offset in bytes",
      params: jobParams,
      query: outputQuery,
      reply: z.looseObject({ items: z.array(chunk) }),
      async handle({ params, query }) {
        const { id: buildId } = await getBuild(app, params.id);
        const row = await store.jobs.find({ key: params.job, buildId });
        if (row === null) throw new WavesmithError("not-found", `build ${buildId} has no job ${params.job}`);
        return { body: { items: await outputAfter(store, row.key, query) } };
      },
    }),
  ];
}
