import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { projectIdFor } from "../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../src/domain/events/request-ids.ts";
import { withFolder } from "./database.ts";

type App = Awaited<ReturnType<typeof createApp>>;

/**
 * Builds a plan in a fresh data directory. Returns ms from the build's request to its end; opening
 * the app comes before.
 */
export function buildPlan(plan: Readonly<Record<string, unknown>>): Promise<number> {
  return withFolder(async (dataDir) => {
    const config = loadConfig({ ...process.env, WAVESMITH_DATA: dataDir, DATABASE_URL: "" });
    const app = await createApp({ config, warn: (message) => process.stderr.write(`${message}\n`) });
    const projectId = projectIdFor("default", "bench");
    try {
      await app.start(new Set([projectId]));
      const id = "project/build.requested:bench:0";
      const begun = performance.now();
      await app.send({ name: "project/build.requested", id, data: { projectId, project: "bench", plan } });
      const status = await endOf(app, buildIdForEvent(id));
      const took = performance.now() - begun;
      if (status !== "completed") throw new Error(`the build of the bench is ${status}`);
      return took;
    } finally {
      await app.close();
      await app.ports.driver(config.sandboxDriver).remove(projectId, { volume: true });
    }
  });
}

async function endOf(app: App, buildId: string): Promise<string> {
  const over = new Set(["completed", "failed", "cancelled", "waiting"]);
  for (;;) {
    const [found] = await app.store.builds.pick({ id: buildId }, ["status"]);
    if (found !== undefined && over.has(found.status)) return found.status;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
