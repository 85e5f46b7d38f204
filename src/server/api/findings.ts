import { z } from "@hono/zod-openapi";
import { commentsJson } from "../../api/comments.ts";
import { addComment } from "../../coordinator/wave/comments.ts";
import { getBuild, readBuild } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams, personName } from "./endpoint.ts";

const line = z.number().int().min(1).max(10_000_000);
const bodySchema = z.strictObject({
  text: z.string().trim().min(1).max(20_000),
  by: personName,
  file: z.string().min(1).max(1_000).optional(),
  line: line.optional(),
  endLine: line.optional(),
  /** Its next attempt gets the comment, instead of the wave's fixer. */
  task: z.string().min(1).max(200).optional(),
});
const findingReply = z
  .looseObject({
    id: z.number(),
    kind: z.string(),
    task: z.string().nullable(),
    file: z.string().nullable(),
    line: z.number().nullable(),
    endLine: z.number().nullable(),
    text: z.string(),
    by: z.string(),
    createdAt: z.string(),
    state: z.enum(["open", "given", "resolved", "superseded"]),
    /** Its state in words, such as `resolved by fix 1`. */
    outcome: z.string(),
  })
  .openapi("PersonsFinding");

const listedReply = findingReply.extend({ wave: z.number().nullable() }).openapi("PersonsFindingRow");

/** People's comments on a build's work; what gates found is in `GET /builds/{id}/gates`. */
export function findingEndpoints({ app }: ApiContext): Endpoint[] {
  return [
    endpoint("get /builds/{id}/findings", {
      summary: "List people's comments on a build's work, with what became of them",
      params: idParams,
      reply: z.looseObject({ items: z.array(listedReply) }),
      handle: async ({ params }) => ({ body: { items: commentsJson(await readBuild(app, params.id)) } }),
    }),
    endpoint("post /builds/{id}/findings", {
      summary: "Comment on a build's work: a finding for the wave's fixer or a task's next attempt",
      params: idParams,
      body: bodySchema,
      reply: findingReply,
      status: 201,
      async handle({ params, body: { text, by, file = null, line: at = null, endLine = null, task = null } }) {
        const { id: buildId } = await getBuild(app, params.id);
        const comment = { text, by, file, line: at, endLine, taskKey: task };
        const { id, state, createdAt } = await addComment(app.ports, buildId, comment);
        return {
          body: { id, kind: "comment", file, line: at, endLine, text, by, task, createdAt, state, outcome: state },
        };
      },
    }),
  ];
}
