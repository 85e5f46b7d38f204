import { z } from "@hono/zod-openapi";
import {
  execInSandbox,
  latestSandbox,
  removeUnusedSandbox,
  restoreProject,
  sandboxJson,
  snapshotJson,
  snapshotProject,
  startSandbox,
  stopUnusedSandbox,
} from "../../api/sandbox-use.ts";
import { stopPreview } from "../../coordinator/preview/preview.ts";
import { requestPreview } from "../../coordinator/preview/request-preview.ts";
import { wakePreview } from "../../coordinator/preview/wake-preview.ts";
import { WavesmithError } from "../../domain/errors.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageOf,
  pageQuery,
} from "./endpoint.ts";
import { findProject } from "./projects.ts";

const sandboxReply = z
  .looseObject({
    id: z.string(),
    projectId: z.string(),
    driver: z.string(),
    state: z.string(),
    reason: z.string().nullable(),
    startedAt: z.string().nullable(),
    stoppedAt: z.string().nullable(),
  })
  .openapi("Sandbox");
const snapshotReply = z
  .looseObject({ id: z.string(), projectId: z.string(), state: z.string(), sizeBytes: z.number().nullable() })
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
  const { ports, allTenants } = api.app;
  return [
    ...projectSandboxEndpoints(api),
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
    endpoint("delete /sandboxes/{id}", {
      summary: "Remove a sandbox, and its volume with ?volume=true",
      params: idParams,
      query: removal,
      reply: z.looseObject({ id: z.string() }),
      async handle({ params: { id }, query: { volume } }) {
        const row = await ports.store.sandboxes.find({ id });
        if (row === null) throw new WavesmithError("not-found", `there is no sandbox ${id}`);
        await removeUnusedSandbox(allTenants, row, { volume: volume === "true" });
        return { body: { id } };
      },
    }),
    ...previewEndpoints(api),
  ];
}

/** Requests for the sandbox of a project, by the project's id or name. */
function projectSandboxEndpoints({ app }: ApiContext): Endpoint[] {
  const { ports, allTenants } = app;
  const sandboxOf = async (name: string) => latestSandbox(ports, (await findProject(app, name)).id);
  return [
    endpoint("post /projects/{id}/sandbox/start", {
      summary: "Start a project's sandbox",
      params: idParams,
      reply: sandboxReply,
      async handle({ params }) {
        const row = await sandboxOf(params.id);
        await startSandbox(allTenants, row);
        return { body: sandboxJson(await latestSandbox(ports, row.projectId)) };
      },
    }),
    endpoint("post /projects/{id}/sandbox/stop", {
      summary: "Stop a project's sandbox and keep its volume",
      params: idParams,
      reply: sandboxReply,
      async handle({ params }) {
        const row = await sandboxOf(params.id);
        await stopUnusedSandbox(allTenants, row);
        return { body: sandboxJson(await latestSandbox(ports, row.projectId)) };
      },
    }),
    endpoint("post /projects/{id}/sandbox/exec", {
      summary: "Run a short command in the joined tree",
      params: idParams,
      body: command,
      reply: z.looseObject({ exitCode: z.number().nullable(), stdout: z.string(), stderr: z.string() }),
      handle: async ({ params, body }) => ({ body: await execInSandbox(allTenants, await sandboxOf(params.id), body) }),
    }),
    endpoint("post /projects/{id}/sandbox/snapshot", {
      summary: "Take a snapshot of a project's volume",
      params: idParams,
      reply: snapshotReply,
      status: 201,
      async handle({ params }) {
        const project = await findProject(app, params.id);
        return { body: snapshotJson(await snapshotProject(allTenants, project.id), project.name) };
      },
    }),
    endpoint("post /projects/{id}/sandbox/restore", {
      summary: "Replace a project's volume with a snapshot (default: the latest)",
      params: idParams,
      body: z.strictObject({ snapshot: z.string().min(1).max(100).optional() }),
      reply: snapshotReply,
      async handle({ params, body }) {
        const project = await findProject(app, params.id);
        return { body: snapshotJson(await restoreProject(allTenants, project, body.snapshot), project.name) };
      },
    }),
  ];
}

function previewEndpoints({ app: { ports, allTenants } }: ApiContext): Endpoint[] {
  const show = async (buildId: string) => {
    const row = await ports.store.previews.find({ buildId });
    if (row === null) throw new WavesmithError("not-found", `build ${buildId} has no preview`);
    const { waveNumber, status, reason, requestedAt } = row;
    const { projectId } = await ports.store.builds.get({ id: buildId });
    const { previewPort, previewOrigin } = await ports.store.projects.get({ id: projectId });
    const isShown = status !== "stopped" && previewPort !== null;
    const localUrl = isShown ? `http://127.0.0.1:${previewPort}/` : null;
    const url = isShown && previewOrigin !== null ? `${previewOrigin}/` : localUrl;
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
      summary: "Start a preview that is asleep, dead or stopped",
      params: idParams,
      reply: previewReply,
      status: 202,
      async handle({ params: { id } }) {
        const before = await show(id);
        if (before.status === "asleep") await wakePreview(allTenants, id);
        if (before.status === "dead" || before.status === "stopped") await requestPreview(allTenants, id);
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
