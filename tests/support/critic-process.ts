import { setTimeout as pause } from "node:timers/promises";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { removeSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { createDeath, say } from "./crash-death.ts";
import type { CrashInput } from "./crash-runs.ts";

// One process of a build with a model, a critic's agent and a shared tree. It starts or continues
// the build, and kills itself at the first crash point of those it is given. Prints one JSON object
// per line.

export interface CriticProcessInput extends CrashInput {
  readonly plan: Record<string, unknown>;
}

async function main({ plan, ...input }: CriticProcessInput): Promise<void> {
  const { project } = input;
  const { reach, fired } = createDeath(input);
  const projectId = projectIdFor("default", project);
  const eventId = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(eventId);
  const app = await createApp({
    config: loadConfig(process.env),
    warn: (message) => say({ type: "warning", message }),
    crashPoint: reach,
  });
  await app.start(new Set([projectId]));
  if ((await app.store.builds.find({ id: buildId })) === null)
    await app.send({ name: "project/build.requested", id: eventId, data: { projectId, project, plan } });
  let build = await app.store.builds.find({ id: buildId });
  while (build === null || build.endedAt === null) {
    await pause(50);
    build = await app.store.builds.find({ id: buildId });
  }
  const { sandboxDriver } = build;
  const guest = async () => (await app.ports.driver(sandboxDriver).find(projectId as never))?.guest;
  // The last steps close a tree and forget its job.
  while (((await (await guest())?.listJobs()) ?? []).length > 0) await pause(50);
  const chunks = await app.store.logChunks.list({}, { by: "at" });
  const looks = chunks.flatMap(({ text }) => [...text.matchAll(/^look: (\w+)$/gm)].map((found) => found[1]));
  say({ type: "warning", message: `looks: ${looks.join(" ")}` });
  const sandbox = await app.store.sandboxes.get({ projectId, state: ["wanted", "running", "stopped", "lost"] });
  await removeSandbox(app.ports, sandbox, { volume: false });
  await app.reconcile(); // also sends the events of removing
  await app.close();
  say({ type: "ended", status: build.status, reason: build.reason, fired: fired() });
}

await main(JSON.parse(process.argv[2]!) as CriticProcessInput);
