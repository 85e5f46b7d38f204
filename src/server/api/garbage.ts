import { z } from "@hono/zod-openapi";
import { removalOf } from "../../api/garbage.ts";
import { requireOperator } from "../access/operators.ts";
import { type ApiContext, type Endpoint, endpoint } from "./endpoint.ts";

const itemReply = z
  .looseObject({
    kind: z.enum(["build", "output", "branches", "volume", "snapshot", "upload"]),
    project: z.string(),
    id: z.string(),
    bytes: z.number().nullable(),
  })
  .openapi("Garbage");
const removalReply = z
  .looseObject({
    busy: z.boolean(),
    keepsBuilds: z.boolean(),
    dryRun: z.boolean(),
    bytes: z.number(),
    items: z.array(itemReply),
  })
  .openapi("Removal");

/** Garbage collection, for all tenants. */
export function garbageEndpoints({ app }: ApiContext): Endpoint[] {
  return [
    endpoint("post /gc", {
      summary: "Remove what is kept longer than the settings say; with dryRun show what would be removed",
      needs: "admin",
      body: z.strictObject({ dryRun: z.boolean().default(false) }),
      reply: removalReply,
      async handle({ body: { dryRun } }) {
        requireOperator(app.tenant, "the disk");
        const garbage = dryRun ? await app.garbage.find() : await app.garbage.collect();
        const keepsBuilds = app.config.retention.buildsMs === null;
        return { body: { busy: garbage === null, keepsBuilds, ...removalOf(garbage ?? [], { dryRun }) } };
      },
    }),
  ];
}
