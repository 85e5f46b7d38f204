import { z } from "@hono/zod-openapi";
import { memoryTag, setMemory } from "../../api/memory.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";
import { findProject } from "./projects.ts";

const memoryReply = z.looseObject({ text: z.string(), tag: z.string() }).openapi("Memory");
const show = (text: string) => ({ text, tag: memoryTag(text) });

export function memoryEndpoints({ app }: ApiContext): Endpoint[] {
  const { store } = app.ports;
  return [
    endpoint("get /projects/{id}/memory", {
      summary: "Show what a project remembers of its builds, in Markdown",
      params: idParams,
      reply: memoryReply,
      async handle({ params }) {
        const { memory } = await findProject(app, params.id);
        return { headers: { etag: memoryTag(memory) }, body: show(memory) };
      },
    }),
    endpoint("put /projects/{id}/memory", {
      summary: "Replace what a project remembers; with If-Match only if it is still the one you read",
      params: idParams,
      body: z.strictObject({ text: z.string().max(1_000_000) }),
      reply: memoryReply,
      async handle({ params, body: { text }, header }) {
        const { id } = await findProject(app, params.id);
        const tag = header("if-match") ?? null;
        await setMemory(store, id, { text, tag: tag === "*" ? null : tag });
        return { headers: { etag: memoryTag(text) }, body: show(text) };
      },
    }),
  ];
}
