import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { bodyLimit } from "hono/body-limit";
import { WavesmithError } from "../../domain/errors.ts";
import { withKey } from "../guard.ts";
import type { ServedApp } from "../port.ts";
import { problem } from "../problem.ts";
import { buildPartEndpoints, waitingEndpoints } from "./build-parts.ts";
import { buildEndpoints } from "./builds.ts";
import { checked, parseJson } from "./checked.ts";
import { docsPage } from "./docs-page.ts";
import { type Call, type Endpoint, jsonReply } from "./endpoint.ts";
import { eventEndpoints } from "./events.ts";
import { planEndpoints } from "./plans.ts";
import { projectEndpoints } from "./projects.ts";
import { sandboxEndpoints } from "./sandboxes.ts";
import { steeringEndpoints } from "./steering.ts";
import { taskEndpoints } from "./tasks.ts";

export interface ApiOptions {
  readonly app: ServedApp;
  readonly key: string;
  readonly warn: (message: string) => void;
  readonly stopping: AbortSignal;
}

const base = "/api/v1";
/** Enough for a plan of ten thousand tasks. */
const maxBodyBytes = 4 * 1024 * 1024;
const bodyMs = 30_000;
const problemReply = z
  .looseObject({ status: z.number(), code: z.string(), detail: z.string(), remedy: z.string().optional() })
  .openapi("Problem");

/** Creates the routes under `/api/v1`, `/openapi.json` and `/docs`. */
export function createApi({ app, key, warn, stopping }: ApiOptions): OpenAPIHono {
  const routes = new OpenAPIHono();
  const api = { app, warn, stopping };
  const endpoints = [
    ...projectEndpoints(api),
    ...planEndpoints(api),
    ...buildEndpoints(api),
    ...buildPartEndpoints(api),
    ...waitingEndpoints(api),
    ...taskEndpoints(api),
    ...steeringEndpoints(api),
    ...sandboxEndpoints(api),
    ...eventEndpoints(api),
  ];
  routes.use(`${base}/*`, withKey(key));
  routes.use(
    `${base}/*`,
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: () => problem(413, "too-large", `the body is larger than ${maxBodyBytes} bytes`),
    }),
  );
  routes.openAPIRegistry.registerComponent("securitySchemes", "key", { type: "http", scheme: "bearer" });
  for (const one of endpoints) {
    register(routes, one);
    const path = `${base}${one.path.replace(/\{(\w+)\}/g, ":$1")}`;
    routes.on(one.method.toUpperCase(), path, (context) => answer(context, one, stopping));
  }
  const document = routes.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: "Wavesmith", version: "1", description: "Start builds, follow them and steer them." },
    security: [{ key: [] }],
  });
  routes.get("/openapi.json", (context) => jsonReply(context, { body: document }));
  routes.get("/docs", ({ html }) =>
    html(docsPage(endpoints, base), 200, {
      "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    }),
  );
  return routes;
}

async function answer(context: Context, one: Endpoint, stopping: AbortSignal): Promise<Response> {
  const call = {
    params: checked(one.params, context.req.param(), "the path"),
    query: checked(one.query, context.req.query(), "the query"),
    body: await bodyOf(context, one, stopping),
    header: (name: string) => context.req.header(name),
    gone: context.req.raw.signal,
  };
  const reply = await one.handle(call as unknown as Call<never, never, never>);
  return reply instanceof Response ? reply : jsonReply(context, { status: one.status, ...reply });
}

async function bodyOf(context: Context, { body }: Endpoint, stopping: AbortSignal): Promise<unknown> {
  if (body === null) return undefined;
  const text = await inTime(context.req.text(), stopping);
  if ("plan" in body) return { text, format: formatOf(text, context.req.header("content-type") ?? "") };
  return checked(body.schema, text === "" ? {} : parseJson(text), "the body");
}

/** The format by the content type, or by the text where that says neither, as with `curl -d`. */
function formatOf(text: string, contentType: string): "json" | "yaml" {
  if (/yaml/i.test(contentType)) return "yaml";
  return /json/i.test(contentType) || /^\s*[{[]/.test(text) ? "json" : "yaml";
}

/** Gives up on a client that sends its body too slowly. */
async function inTime(text: Promise<string>, stopping: AbortSignal): Promise<string> {
  const late = AbortSignal.any([AbortSignal.timeout(bodyMs), stopping]);
  const tooSlow = new Promise<never>((_, reject) => {
    const fail = () => reject(new WavesmithError("usage", "the body did not arrive in time"));
    if (late.aborted) fail();
    late.addEventListener("abort", fail, { once: true });
  });
  return Promise.race([text, tooSlow]);
}

function register(routes: OpenAPIHono, one: Endpoint): void {
  const { method, path, summary, params, query, body, reply, status, media } = one;
  const planText = { "application/yaml": { schema: { type: "string" as const } }, "application/json": { schema: {} } };
  const content = body === null ? null : "plan" in body ? planText : { "application/json": { schema: body.schema } };
  const wrong = {
    description: "What is wrong, and what to do",
    content: { "application/problem+json": { schema: problemReply } },
  };
  routes.openAPIRegistry.registerPath({
    method,
    path: `${base}${path}`,
    summary,
    request: { params, query, ...(content === null ? {} : { body: { content, required: true } }) },
    responses: {
      [status]: { description: summary, content: { [media ?? "application/json"]: { schema: reply } } },
      default: wrong,
    },
  });
}
