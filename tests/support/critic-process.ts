import { writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../../src/domain/events/event-ids.ts";
import { removeSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import type { CrashInput, CrashLine } from "./crash-runs.ts";

// One process of a build with a model, a critic's agent and a shared tree. It starts or continues
// the build, and kills itself at the first of the crash points it is given. Prints a JSON
// object a line.

export interface CriticProcessInput extends CrashInput {
  readonly plan: Record<string, unknown>;
}

const say = (line: CrashLine): void => void writeSync(1, `${JSON.stringify(line)}\n`);

async function main({ project, points, occurrence, plan }: CriticProcessInput): Promise<void> {
  const fired = new Map<string, number>();
  const projectId = projectIdFor("default", project);
  const eventId = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(eventId);
  const app = await createApp({
    config: loadConfig(process.env),
    warn: (message) => say({ type: "warning", message }),
    crashPoint: (point) => {
      fired.set(point, (fired.get(point) ?? 0) + 1);
      if (!points.includes(point) || fired.get(point) !== occurrence) return;
      say({ type: "killed", point, fired: [...fired.keys()] });
      process.kill(process.pid, "SIGKILL");
    },
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
  await app.reconcile(); // what removing has told is sent, too
  await app.close();
  say({ type: "ended", status: build.status, reason: build.reason, fired: [...fired.keys()] });
}

await main(JSON.parse(process.argv[2]!) as CriticProcessInput);
