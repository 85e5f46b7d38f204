import { noSandboxOf } from "../../api/find-sandbox.ts";
import type { ProjectSandboxes } from "../../api/project-sandboxes.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import type { Context } from "../context.ts";
import { isUsed, openApp } from "../parts.ts";
import { defined } from "../server/defined.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

/** Opens the sandboxes of the data directory or of the server, for one command. */
export async function withSandboxes(
  context: Context,
  work: (sandboxes: ProjectSandboxes) => Promise<number>,
): Promise<number> {
  const server = await serverApi(context);
  if (server !== null) return work(serverSandboxes(server));
  const config = await context.config();
  if (!isUsed(config)) return work(noSandboxes);
  const { openSandboxes } = await import("../../api/project-sandboxes.ts");
  const app = await openApp(config, context.warn);
  try {
    return await work(openSandboxes({ ports: app.ports, allTenants: app.ports, tenant: defaultTenant }));
  } finally {
    await app.close();
  }
}

/** The sandboxes of an unused data directory; looking does not create it. */
const noSandboxes: ProjectSandboxes = {
  list: async () => ({ sandboxes: [], warnings: [] }),
  snapshots: async (name) => (name === null ? [] : noSandbox(name)),
  ...{ start: noSandbox, stop: noSandbox, remove: noSandbox, snapshot: noSandbox, restore: noSandbox },
};

async function noSandbox(name: string): Promise<never> {
  throw noSandboxOf(name);
}

/** A server sends no progress. */
function serverSandboxes({ api, ask }: ServerApi): ProjectSandboxes {
  const at = (id: string) => ({ params: { path: { id } } });
  return {
    async list() {
      const { items, warnings } = await ask(api.GET("/api/v1/sandboxes/usage"));
      return { sandboxes: items, warnings };
    },
    start: (name) => ask(api.POST("/api/v1/projects/{id}/sandbox/start", at(name))),
    stop: (name) => ask(api.POST("/api/v1/projects/{id}/sandbox/stop", at(name))),
    remove(id, { volume }) {
      const query = { volume: volume ? ("true" as const) : ("false" as const) };
      return ask(api.DELETE("/api/v1/sandboxes/{id}", { params: { path: { id }, query } }));
    },
    async snapshots(name) {
      const query = defined({ sandbox: name ?? undefined });
      return (await ask(api.GET("/api/v1/snapshots", { params: { query } }))).items;
    },
    snapshot: (name, format) =>
      ask(
        api.POST("/api/v1/projects/{id}/sandbox/snapshot", {
          ...at(name),
          body: defined({ format: format ?? undefined }),
        }),
      ),
    restore: (name, snapshot) =>
      ask(
        api.POST("/api/v1/projects/{id}/sandbox/restore", {
          ...at(name),
          body: defined({ snapshot: snapshot ?? undefined }),
        }),
      ),
  };
}
