import { z } from "@hono/zod-openapi";
import { openSandboxes, type ProjectSandboxes } from "../../api/project-sandboxes.ts";
import { execInSandbox, latestSandbox, openSandbox, sandboxJson } from "../../api/sandbox-use.ts";
import { stopPreview } from "../../coordinator/preview/preview.ts";
import { previewAddress } from "../../coordinator/preview/preview-address.ts";
import { requestPreview } from "../../coordinator/preview/request-preview.ts";
import { wakePreview } from "../../coordinator/preview/wake-preview.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { getBuild } from "./builds.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageOf,
  pageQuery,
  sendSoon,
} from "./endpoint.ts";
import { findProject } from "./projects.ts";

const sandboxReply = z
  .looseObject({
    id: z.string(),
    projectId: z.string(),
    driver: z.string(),
    state: z.string(),
    reason: z.string().nullable(),
    createdAt: z.string(),
    startedAt: z.string().nullable(),
    stoppedAt: z.string().nullable(),
  })
  .openapi("Sandbox");
const usageReply = z
  .looseObject({
    ...{ id: z.string(), project: z.string(), projectId: z.string(), driver: z.string(), state: z.string() },
    wall: z
      .strictObject({ isolation: z.enum(["bubblewrap", "users", "none"]), runtime: z.string().nullable() })
      .nullable(),
    ...{ reason: z.string().nullable(), createdAt: z.string(), since: z.string().nullable() },
    ...{ idleMs: z.number().nullable(), cpus: z.number().nullable(), memoryBytes: z.number().nullable() },
    ...{ processes: z.number().nullable(), diskBytes: z.number().nullable(), diskCountedAt: z.string().nullable() },
  })
  .openapi("SandboxUsage");
const snapshotReply = z
  .looseObject({
    ...{ id: z.string(), project: z.string(), projectId: z.string(), sandboxId: z.string(), state: z.string() },
    ...{ reason: z.string(), format: z.string(), sizeBytes: z.number().nullable(), sha256: z.string().nullable() },
    ...{ error: z.string().nullable(), createdAt: z.string(), expiresAt: z.string() },
  })
  .openapi("Snapshot");
const previewReply = z
  .looseObject({
    id: z.string(),
    buildId: z.string(),
    projectId: z.string(),
    wave: z.number(),
    status: z.string(),
    reason: z.string().nullable(),
    url: z.string().nullable(),
  })
  .openapi("Preview");
const command = z.strictObject({
  argv: z.array(z.string().max(100_000)).min(1).max(1_000),
  timeoutMs: z.number().int().min(1).max(600_000).default(60_000),
});
const removal = z.strictObject({ volume: z.enum(["true", "false"]).default("false") });

export function sandboxEndpoints(api: ApiContext): Endpoint[] {
  const { ports, allTenants, tenant } = api.app;
  const sandboxes = openSandboxes({ ports, allTenants, ...tenant });
  return [
    ...projectSandboxEndpoints(sandboxes),
    ...execEndpoints(api),
    endpoint("get /sandboxes", {
      summary: "List sandboxes",
      query: pageQuery,
      reply: pageOf(sandboxReply),
      async handle({ query: { cursor, limit } }) {
        const order = { by: "id" as const, limit: limit + 1, ...cursorValue(cursor, "string") };
        const state = ["wanted", "running", "stopped", "lost"] as const;
        const rows = await ports.store.sandboxes.list({ state }, order);
        return { body: page(rows, { limit, cursorOf: ({ id }) => id, show: sandboxJson }) };
      },
    }),
    endpoint("get /sandboxes/usage", {
      summary: "List sandboxes and kept volumes with what they use now: processors, memory and disk",
      reply: z.looseObject({ items: z.array(usageReply), warnings: z.array(z.string()) }),
      async handle() {
        const { sandboxes: items, warnings } = await sandboxes.list();
        return { body: { items, warnings } };
      },
    }),
    endpoint("post /sandboxes", {
      summary: "Make the sandbox of a project, or start the one it has, as its last build would",
      body: z.strictObject({ project: z.string().min(1).max(100) }),
      reply: sandboxReply,
      status: 201,
      async handle({ body: { project } }) {
        const { id } = await findProject(api.app, project);
        const running = await ports.store.sandboxes.find({ projectId: id, state: "running" });
        const row = await openSandbox(allTenants, id);
        return { status: running?.id === row.id ? 200 : 201, body: sandboxJson(row) };
      },
    }),
    endpoint("delete /sandboxes/{id}", {
      summary: "Remove a sandbox, named by its id or project, and its volume with ?volume=true",
      params: idParams,
      query: removal,
      reply: sandboxReply,
      handle: async ({ params: { id }, query: { volume } }) => ({
        body: await sandboxes.remove(id, { volume: volume === "true" }),
      }),
    }),
    ...previewEndpoints(api),
  ];
}

/** Requests for the sandbox of a project, by the id or name of the project, or its own id. */
const projectSandboxEndpoints = (sandboxes: ProjectSandboxes): Endpoint[] => [
  endpoint("post /projects/{id}/sandbox/start", {
    summary: "Start a project's sandbox",
    params: idParams,
    reply: sandboxReply.extend({ workspaceRoot: z.string() }),
    handle: async ({ params }) => ({ body: await sandboxes.start(params.id) }),
  }),
  endpoint("post /projects/{id}/sandbox/stop", {
    summary: "Stop a project's sandbox and keep its volume",
    params: idParams,
    reply: sandboxReply,
    handle: async ({ params }) => ({ body: await sandboxes.stop(params.id) }),
  }),
  endpoint("get /snapshots", {
    summary: "List the snapshots of volumes that are kept, being written or failed, oldest first",
    query: z.strictObject({ sandbox: z.string().min(1).max(100).optional() }),
    reply: z.looseObject({ items: z.array(snapshotReply) }),
    handle: async ({ query: { sandbox } }) => ({ body: { items: await sandboxes.snapshots(sandbox ?? null) } }),
  }),
  endpoint("post /projects/{id}/sandbox/snapshot", {
    summary: "Take a snapshot of a project's volume",
    params: idParams,
    body: z.strictObject({ format: z.string().max(20).optional() }),
    reply: snapshotReply,
    status: 201,
    handle: async ({ params, body }) => ({ body: await sandboxes.snapshot(params.id, body.format ?? null) }),
  }),
  endpoint("post /projects/{id}/sandbox/restore", {
    summary: "Replace a project's volume with a snapshot (default: the latest)",
    params: idParams,
    body: z.strictObject({ snapshot: z.string().min(1).max(100).optional() }),
    reply: snapshotReply,
    handle: async ({ params, body }) => ({ body: await sandboxes.restore(params.id, body.snapshot ?? null) }),
  }),
];

const execEndpoints = ({ app }: ApiContext): Endpoint[] => [
  endpoint("post /projects/{id}/sandbox/exec", {
    summary: "Run a short command in the joined tree",
    params: idParams,
    body: command,
    reply: z.looseObject({ exitCode: z.number().nullable(), stdout: z.string(), stderr: z.string() }),
    async handle({ params, body }) {
      const { id } = await findProject(app, params.id);
      return { body: await execInSandbox(app.allTenants, await latestSandbox(app.ports, id), body) };
    },
  }),
];

function previewEndpoints({ app }: ApiContext): Endpoint[] {
  const { ports, allTenants } = app;
  const show = async (buildId: string) => {
    const row = await ports.store.previews.find({ buildId });
    if (row === null) throw new WavesmithError("not-found", `build ${buildId} has no preview`);
    const { waveNumber, status, reason, requestedAt } = row;
    const { projectId, plan } = await ports.store.builds.get({ id: buildId });
    const project = await ports.store.projects.get({ id: projectId });
    const { ownUrl, localUrl } = previewAddress({ status, project, path: plan.preview?.healthPath ?? "/" });
    const url = ownUrl ?? localUrl;
    return { id: buildId, buildId, projectId, wave: waveNumber, status, reason, requestedAt, url, localUrl };
  };
  return [
    endpoint("get /previews", {
      summary: "List the previews that are shown or asleep; a preview has the id of its build",
      reply: z.looseObject({ items: z.array(previewReply) }),
      async handle() {
        const rows = await ports.store.previews.list({ status: ["starting", "ready", "asleep", "dead"] });
        return { body: { items: await Promise.all(rows.map(({ buildId }) => show(buildId))) } };
      },
    }),
    endpoint("post /previews/{id}/start", {
      summary: "Start the preview of a finished or waiting build",
      params: idParams,
      reply: previewReply,
      status: 202,
      async handle({ params: { id } }) {
        await getBuild(app, id);
        const before = await ports.store.previews.find({ buildId: id });
        if (before?.status === "asleep") await wakePreview(allTenants, id);
        else await requestPreview(allTenants, id);
        sendSoon(app);
        return { body: await show(id) };
      },
    }),
    endpoint("post /previews/{id}/stop", {
      summary: "Stop a preview",
      params: idParams,
      reply: previewReply,
      status: 202,
      async handle({ params: { id } }) {
        await show(id);
        await stopPreview(allTenants, id, "stopped by the API");
        return { body: await show(id) };
      },
    }),
  ];
}
