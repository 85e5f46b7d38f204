import { createHash, randomUUID } from "node:crypto";
import { z } from "@hono/zod-openapi";
import { checkPlanText, planOrFaults, readSubmittedPlan, type SubmittedPlan } from "../../api/plan-check.ts";
import { refuseForEvents } from "../../coordinator/build/request/build-request.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { requestBuild } from "../../coordinator/build/request/request-build.ts";
import { editPlan } from "../../coordinator/plan/edit-plan.ts";
import { refuseWithoutModels } from "../../coordinator/plan/plan-models.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { eventSchemas } from "../../domain/events/events.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { fetchPlan } from "../fetch-plan.ts";
import type { ServedApp } from "../port.ts";
import { problemWith } from "../problem.ts";
import { storeUpload, uploadedSource } from "../uploads.ts";
import { buildReply } from "./build-replies.ts";
import { getBuild, showStatus } from "./builds.ts";
import { checked } from "./checked.ts";
import {
  type ApiCall,
  type ApiContext,
  type Endpoint,
  idParams,
  type PlanBody,
  planEndpoint,
  sendSoon,
  uploadEndpoint,
} from "./endpoint.ts";
import { findProject } from "./projects.ts";

const checkReply = z
  .looseObject({
    waves: z.array(z.looseObject({ number: z.number(), tasks: z.array(z.string()) })),
    criticalPath: z.array(z.string()),
    faults: z.array(
      z
        .object({ code: z.string(), path: z.string(), line: z.number().nullable(), message: z.string() })
        .openapi("PlanFault"),
    ),
    warnings: z.array(z.string()),
  })
  .openapi("PlanCheck");

const keys = z.array(z.string());
const editReply = z.looseObject({ added: keys, again: keys, removed: keys, kept: keys }).openapi("PlanEdit");

/** Whether a person answers agents' questions from now on; absent: as before. */
const editQuery = z.strictObject({ interactive: z.enum(["true", "false"]).optional() });

const projectName = z.string().trim().min(1).max(80);

/** A request that says more than a plan. */
const requestSchema = z.strictObject({
  plan: z.unknown().optional(),
  planUrl: z.string().max(2_000).optional(),
  brief: z.string().max(100_000).optional(),
  source: z.unknown().optional(),
  agents: z.unknown().optional(),
  budget: z.unknown().optional(),
  deliver: z.unknown().optional(),
  yes: z.boolean().optional(),
  metadata: eventSchemas["project/build.requested"].shape.metadata,
  requestedBy: z.string().max(200).optional(),
  /** Whether a person answers agents' questions; otherwise they are denied at once. */
  interactive: z.boolean().optional(),
  /** Of `POST /builds`; elsewhere the address names the project. */
  project: projectName.optional(),
});

const requestKeys = ["plan", "planUrl", "brief"] as const;

export function planEndpoints(api: ApiContext): Endpoint[] {
  return [
    planEndpoint("post /plans/check", {
      summary: "Check a plan: its waves, critical path and faults with their lines",
      needs: "read",
      reply: checkReply,
      async handle({ body: { text, format } }) {
        const { plan: _, ...check } = checkPlanText(text, format, api.app.ports.environment);
        return { body: check };
      },
    }),
    planEndpoint("put /builds/{id}/plan", {
      summary: "Continue a build that is not running with an edited plan; unchanged tasks keep their work",
      params: idParams,
      query: editQuery,
      reply: editReply,
      handle: (call) => edit(api, call),
    }),
    uploadEndpoint("post /projects/{id}/sources", "application/x-git-bundle", {
      summary: "Upload a source: a git bundle of the branch main; a build of the project names it as {upload: ID}",
      params: idParams,
      reply: z.looseObject({ id: z.string() }),
      status: 201,
      async handle({ params, body }) {
        const { id: projectId } = await findProject(api.app, params.id);
        return { body: { id: await storeUpload(api.app, projectId, body) } };
      },
    }),
    planEndpoint("post /projects/{id}/builds", {
      summary: "Start a build of a plan (JSON or YAML), or of {plan, brief, metadata, requestedBy, interactive}",
      params: idParams,
      reply: buildReply,
      status: 201,
      async handle(call) {
        const { id, name } = await findProject(api.app, call.params.id);
        const body = readSubmittedPlan(call.body.text, call.body.format);
        return start(api, { ...call, body }, { id, name });
      },
    }),
    planEndpoint("post /builds", {
      summary: "Start a build of {project, plan, brief, …}; the first build of a project makes the project",
      reply: buildReply,
      status: 201,
      async handle(call) {
        const read = readSubmittedPlan(call.body.text, call.body.format);
        const { project: name } = checked(z.looseObject({ project: projectName }), read.value, "the body");
        return start(api, { ...call, body: read }, { id: projectIdFor(api.app.tenant.tenant, name), name });
      },
    }),
  ];
}

type EditCall = ApiCall<z.infer<typeof idParams>, z.infer<typeof editQuery>, PlanBody>;

async function edit({ app }: ApiContext, { params, query, body }: EditCall) {
  const { id } = await getBuild(app, params.id);
  const read = readSubmittedPlan(body.text, body.format);
  const { plan, faults } = planOrFaults({ read }, app.ports.environment);
  if (plan === null) return faulty(faults);
  refuseForEvents({ plan: read.value }, app.ports);
  refuseWithoutModels(app.ports.models, plan);
  const interactive = query.interactive === undefined ? undefined : query.interactive === "true";
  const edited = await editPlan(app.ports, id, plan, { by: "the API", interactive });
  sendSoon(app);
  return { body: edited };
}

type StartCall = Pick<ApiCall<unknown, unknown, SubmittedPlan>, "body" | "header">;

async function start(
  { app }: ApiContext,
  { body, header }: StartCall,
  project: { readonly id: ProjectId; readonly name: string },
) {
  const given = requestOf(body);
  if (given instanceof Response) return given;
  const eventId = eventIdOf(header("idempotency-key"), project.id);
  const { interactive = false, ...said } = await withFetchedPlan(app, given, eventId);
  if (said.project !== undefined && said.project !== project.name)
    throw new WavesmithError("usage", `this address is of the project ${project.name}, not of ${said.project}`);
  // A plan inside a request may be text with lines of its own; as a value it has no lines.
  const text = typeof said.plan === "string" ? readSubmittedPlan(said.plan, "yaml") : null;
  const plan = text === null ? said.plan : text.value;
  const from = text === null && plan !== body.value ? { value: plan } : { read: text ?? body };
  const { plan: whole, faults } = said.plan === undefined ? noPlan : planOrFaults(from, app.ports.environment);
  if (faults.length > 0) return faulty(faults);
  const asked = uploadSchema.safeParse(said.source).data;
  const { source: _, ...rest } = said;
  const data = {
    ...(asked === undefined ? said : rest),
    ...(plan === undefined ? {} : { plan }),
    project: project.name,
    projectId: project.id,
  };
  const source = asked === undefined ? {} : sourceIn(data, uploadedSource(app, project.id, asked.upload));
  refuseForEvents(data, app.ports);
  const { tenant } = app.tenant;
  const checked = asked === undefined ? whole : null;
  const event = { id: eventId, data: { ...data, ...source, tenant, interactive }, checked };
  const { buildId, repeated } = await requestBuild(app.ports, event, app.config.sandboxDriver);
  sendSoon(app);
  const headers = { location: `/api/v1/builds/${buildId}`, ...(repeated ? { "idempotent-replayed": "true" } : {}) };
  return { headers, body: await showStatus(app, buildId) };
}

/** Returns the id of a request; the same key of a project means the same request. */
function eventIdOf(key: string | undefined, projectId: ProjectId): string {
  if (key !== undefined && (key.length > 200 || key.trim() === ""))
    throw new WavesmithError("usage", "an Idempotency-Key has 1 to 200 characters");
  const own = key === undefined ? randomUUID() : createHash("sha256").update(`${projectId} ${key}`).digest("hex");
  return `project/build.requested:api-${own}:0`;
}

/**
 * Puts the plan that a request names by its address into the request, as text. A repeated request
 * gets the plan that was fetched for the first one, because another may be at its address by now.
 */
async function withFetchedPlan(
  { config, ports }: ServedApp,
  said: z.infer<typeof requestSchema>,
  eventId: string,
): Promise<z.infer<typeof requestSchema>> {
  const { planUrl } = said;
  if (requestKeys.filter((key) => said[key] !== undefined).length > 1)
    throw new WavesmithError("usage", "a request has only one of plan, planUrl and brief", {
      remedy: "leave the others out",
    });
  if (planUrl === undefined) return said;
  const before = await ports.store.outbox.find({ eventId });
  const stored: Readonly<Record<string, unknown>> = before?.data ?? {};
  if (stored.planUrl === planUrl && stored.plan !== undefined) return { ...said, plan: stored.plan };
  return { ...said, plan: await fetchPlan(planUrl, { privateHosts: config.planHosts }) };
}

/** A source that was uploaded before. */
const uploadSchema = z.strictObject({ upload: z.string().max(100) });

/** The field of a request that has an uploaded source: of its plan, or of the request in words. */
const sourceIn = ({ plan }: { readonly plan?: unknown }, source: { git: string; ref: string }) =>
  plan === undefined ? { source } : { plan: { ...(plan as object), source } };

const isRequest = (value: unknown): boolean =>
  typeof value === "object" && value !== null && requestKeys.some((key) => Object.hasOwn(value, key));

const noPlan = { plan: null, faults: [] };

/** The body as a request: a body without the keys of a request is the plan itself. */
function requestOf(read: SubmittedPlan): z.infer<typeof requestSchema> | Response {
  const { value } = read;
  if (isRequest(value)) return checked(requestSchema, value, "the body");
  if (value !== undefined) return { plan: value };
  return faulty(planOrFaults({ read }, {}).faults);
}

function faulty(faults: readonly { path: string; line: number | null; message: string }[]): Response {
  const lines = faults.map(({ path, line, message }) =>
    [line === null ? "" : `line ${line}:`, path, message].filter((part) => part !== "").join(" "),
  );
  const number = faults.length === 1 ? "1 fault" : `${faults.length} faults`;
  return problemWith(422, "plan-invalid", `the plan has ${number}: ${lines.slice(0, 20).join("; ")}`, {
    remedy: "fix the plan; POST /api/v1/plans/check checks it without starting anything",
    extra: { faults },
  });
}
