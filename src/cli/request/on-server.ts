import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dataOf } from "../../client/client.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { Context, Server } from "../context.ts";
import { createWorkspaceFor } from "../parts.ts";
import { askServer } from "../server/ask-server.ts";
import { inOurWords } from "../server/server-errors.ts";

/** A build to request from a server. */
interface ServerRequest {
  readonly project: string;
  /** The start of the tree; we read nothing else of the plan here. */
  readonly plan: Pick<Plan, "source">;
  /** A plan, or a brief with its options. */
  readonly request: { readonly plan?: object } & Readonly<Record<string, unknown>>;
  readonly requestedBy: string;
  /** Whether the person at this terminal answers agents' questions. */
  readonly interactive: boolean;
}

/**
 * Requests a build from a server. Once this returns the build starts, even if this process dies.
 */
export async function requestOnServer(context: Context, server: Server, asked: ServerRequest) {
  const { client, sent } = askServer(server, context.warn);
  const { api } = client;
  const made = await inOurWords(dataOf(api.POST("/api/v1/projects", { body: { name: asked.project } })));
  const source = await sourceFor(context, client, made.id, asked.plan.source);
  const { plan } = asked.request;
  const named =
    source === null ? {} : "upload" in source || plan === undefined ? { source } : { plan: { ...plan, source } };
  const { requestedBy, interactive } = asked;
  const body = { ...asked.request, requestedBy, ...(interactive ? { interactive } : {}), ...named };
  const params = { path: { id: made.id } };
  // Repeating the request after a lost answer starts no second build.
  const headers = { "idempotency-key": randomUUID() };
  const build = await inOurWords(
    dataOf(api.POST("/api/v1/projects/{id}/builds", { params, body: body as never, headers })),
  );
  const { view } = await sent(build.id);
  return { buildId: view.build.id, projectId: view.build.projectId, driver: view.build.sandboxDriver };
}

/**
 * Returns the source as a request names it, after uploading one that only this machine can read;
 * null for an empty one.
 */
async function sourceFor(
  context: Context,
  client: ReturnType<typeof askServer>["client"],
  projectId: string,
  source: Plan["source"],
): Promise<Record<string, string> | null> {
  if (source.kind === "empty") return null;
  if (source.kind === "git" && /^(?:https?|ssh|git):\/\/|^[\w.-]+@[\w.-]+:/.test(source.url)) {
    return { git: source.url, ...(source.ref === null ? {} : { ref: source.ref }) };
  }
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-source-"));
  try {
    const workspace = await createWorkspaceFor({ ...(await context.config()), dataDir: folder });
    const id = projectIdFor("default", "source");
    await workspace.prepare(id, source, new Date());
    const file = join(folder, "source.bundle");
    await workspace.bundleMain(id, file);
    return { upload: await inOurWords(client.uploadSource(projectId, new Blob([await readFile(file)]))) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
