import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Caller } from "../../domain/access.ts";
import { parseJson } from "../../domain/check-input.ts";
import { authenticate } from "../access/authenticate.ts";
import { tooManyRequests } from "../access/rate-limit.ts";
import { recordRequest } from "../access/record-request.ts";
import { refuseScope } from "../access/scope.ts";
import { problem, problemOf } from "../problem.ts";
import { type BodyPatience, bodyInTime, limitRequest } from "../slow-body.ts";
import { auditEndpoints } from "./audit.ts";
import { buildPartEndpoints, waitingEndpoints } from "./build-parts.ts";
import { buildEndpoints } from "./builds.ts";
import { bundleEndpoints } from "./bundle.ts";
import { checked } from "./checked.ts";
import { docsPage } from "./docs-page.ts";
import { type ApiCall, type ApiContext, type Endpoint, jsonReply } from "./endpoint.ts";
import { eventEndpoints } from "./events.ts";
import { fileEndpoints } from "./files.ts";
import { findingEndpoints } from "./findings.ts";
import { garbageEndpoints } from "./garbage.ts";
import { githubEndpoints } from "./github.ts";
import { graphEndpoints } from "./graph.ts";
import { jobEndpoints } from "./jobs.ts";
import { keyEndpoints } from "./keys.ts";
import { machineEndpoints } from "./machine.ts";
import { memoryEndpoints } from "./memory.ts";
import { notificationEndpoints } from "./notifications.ts";
import { planEndpoints } from "./plans.ts";
import { projectHistoryEndpoints } from "./project-history.ts";
import { projectEndpoints } from "./projects.ts";
import { execSocket } from "./sandbox-exec.ts";
import { sandboxEndpoints } from "./sandboxes.ts";
import { scheduleEndpoints } from "./schedules.ts";
import { sessionEndpoints } from "./session.ts";
import { settingsEndpoints } from "./settings.ts";
import { shellSocket } from "./shell.ts";
import { steeringEndpoints } from "./steering.ts";
import { taskEndpoints } from "./tasks.ts";
import { tenantEndpoints } from "./tenants.ts";

const base = "/api/v1";
/** Enough for a plan of ten thousand tasks. */
const maxBodyBytes = 4 * 1024 * 1024;
const problemReply = z
  .looseObject({ status: z.number(), code: z.string(), detail: z.string(), remedy: z.string().optional() })
  .openapi("Problem");

/** The endpoints over one tenant's view of the app, always in the same order. */
const endpointsOf = (api: ApiContext): Endpoint[] => [
  ...projectEndpoints(api),
  ...planEndpoints(api),
  ...buildEndpoints(api),
  ...buildPartEndpoints(api),
  ...graphEndpoints(api),
  ...waitingEndpoints(api),
  ...taskEndpoints(api),
  ...steeringEndpoints(api),
  ...findingEndpoints(api),
  ...memoryEndpoints(api),
  ...fileEndpoints(api),
  ...projectHistoryEndpoints(api),
  ...sandboxEndpoints(api),
  ...machineEndpoints(api),
  ...eventEndpoints(api),
  ...sessionEndpoints(api),
  ...keyEndpoints(api),
  ...tenantEndpoints(api),
  ...settingsEndpoints(api),
  ...githubEndpoints(api),
  ...auditEndpoints(api),
  ...jobEndpoints(api),
  ...notificationEndpoints(api),
  ...scheduleEndpoints(api),
  ...garbageEndpoints(api),
  ...bundleEndpoints(api),
];

/** Creates the routes under `/api/v1`, `/openapi.json` and `/docs`. */
export function createApiRoutes(api: ApiContext): OpenAPIHono {
  const routes = new OpenAPIHono();
  const { callers, cookie, rateLimit } = api;
  const endpoints = endpointsOf(api);
  const endpointsFor = createEndpointsFor(api);
  const limited = limitRequest(maxBodyBytes, api);
  routes.use(`${base}/*`, authenticate(callers, cookie));
  routes.openAPIRegistry.registerComponent("securitySchemes", "key", { type: "http", scheme: "bearer" });
  for (const [index, one] of endpoints.entries()) {
    register(routes, one);
    const path = `${base}${one.path.replace(/\{(\w+)\}/g, (_, name) => (name === "path" ? ":path{.+}" : `:${name}`))}`;
    if (one.body === null || !("upload" in one.body)) routes.on(one.method.toUpperCase(), path, limited);
    routes.on(one.method.toUpperCase(), path, async (context) => {
      const caller = context.get("caller");
      if (caller === null) return refusal(one, null, context) ?? answer(context, one, api);
      const respond = async () => answer(context, (await endpointsFor(caller))[index] ?? one, api);
      const waitMs = rateLimit.waitMs(caller);
      if (waitMs > 0) return tooManyRequests(caller, waitMs);
      const response = refusal(one, caller, context) ?? (await respond().catch((error) => problemOf(error, api.warn)));
      const action = `${one.method.toUpperCase()} ${one.path}`;
      if (one.method !== "get" && one.needs !== "read" && one.needs !== "nothing")
        await recordRequest(api, caller, { action, params: context.req.param(), result: response.status });
      return response;
    });
  }
  routes.get(`${base}/builds/:id/shell`, ...shellSocket(api));
  routes.get(`${base}/projects/:id/sandbox/exec`, ...execSocket(api));
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

/**
 * Returns what makes the endpoints over a tenant's view of the app; each tenant's are made once.
 */
function createEndpointsFor(api: ApiContext): (caller: Caller) => Promise<readonly Endpoint[]> {
  const made = new Map<string, readonly Endpoint[]>();
  return async ({ tenantId, tenant }) => {
    const present = made.get(tenantId);
    if (present !== undefined) return present;
    const own = endpointsOf({ ...api, app: await api.app.forTenant({ tenantId, tenant }) });
    made.set(tenantId, own);
    return own;
  };
}

/** Refuses a caller whose key or session does not suffice; null if it does. */
function refusal({ needs }: Endpoint, caller: Caller | null, context: Context): Response | null {
  if (needs === "nothing") return null;
  if (caller === null) {
    const isGiven = context.req.header("authorization") !== undefined || context.req.header("cookie") !== undefined;
    const what = isGiven ? "the key or session is wrong, expired or revoked" : "this request has no key";
    return problem(
      401,
      "unauthorized",
      what,
      "send Authorization: Bearer KEY; `wavesmith serve` prints where the key is",
    );
  }
  return refuseScope(caller, needs);
}

async function answer(context: Context, one: Endpoint, patience: BodyPatience): Promise<Response> {
  const call = {
    caller: context.get("caller"),
    params: checked(one.params, context.req.param(), "the path"),
    query: checked(one.query, context.req.query(), "the query"),
    body: await bodyOf(context, one, patience),
    header: (name: string) => context.req.header(name),
    gone: context.req.raw.signal,
    isAllowed: async () => (await context.get("findCaller")()) !== null,
  };
  if (call.body instanceof Response) return call.body;
  const reply = await one.handle(call as unknown as ApiCall<never, never, never>);
  return reply instanceof Response ? reply : jsonReply(context, { status: one.status, ...reply });
}

async function bodyOf(context: Context, { body }: Endpoint, patience: BodyPatience): Promise<unknown> {
  if (body === null) return undefined;
  if ("upload" in body) return context.req.raw.body;
  const text = await bodyInTime(context.req.text(), patience);
  if (text instanceof Response) return text;
  if ("plan" in body) return { text, format: formatOf(text, context.req.header("content-type") ?? "") };
  return checked(body.schema, text === "" ? {} : parseJson(text), "the body");
}

/** The format by the content type, or by the text where that says neither, as with `curl -d`. */
function formatOf(text: string, contentType: string): "json" | "yaml" {
  if (/yaml/i.test(contentType)) return "yaml";
  return /json/i.test(contentType) || /^\s*[{[]/.test(text) ? "json" : "yaml";
}

function register(routes: OpenAPIHono, one: Endpoint): void {
  const { method, path, summary, needs, params, query, body, reply, status, media } = one;
  const planText = { "application/yaml": { schema: { type: "string" as const } }, "application/json": { schema: {} } };
  const content =
    body === null
      ? null
      : "upload" in body
        ? { [body.upload]: { schema: { type: "string" as const, format: "binary" } } }
        : "plan" in body
          ? planText
          : { "application/json": { schema: body.schema } };
  const wrong = {
    description: "What is wrong, and what to do",
    content: { "application/problem+json": { schema: problemReply } },
  };
  routes.openAPIRegistry.registerPath({
    method,
    path: `${base}${path}`,
    summary,
    ...(needs === "nothing" ? { security: [] } : {}),
    request: { params, query, ...(content === null ? {} : { body: { content, required: true } }) },
    responses: {
      [status]:
        status === 204
          ? { description: summary }
          : { description: summary, content: { [media ?? "application/json"]: { schema: reply } } },
      default: wrong,
    },
  });
}
