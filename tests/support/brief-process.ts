import { writeSync } from "node:fs";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { approveWave } from "../../src/coordinator/wave/decide-wave.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { removeSandbox, stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";

// A process that starts or continues a build from a brief, approves its plan, and kills itself when
// it first reaches a crash point. Its settings come from the environment, its argument is JSON.
// Prints JSON lines.

export interface BriefProcessInput {
  readonly project: string;
  /** The text of the request. */
  readonly request: Record<string, unknown>;
  /** Null: never. */
  readonly diesAt: string | null;
}

export type BriefProcessLine =
  | { readonly type: "killed"; readonly point: string }
  | { readonly type: "ended"; readonly status: string; readonly reason: string | null }
  | { readonly type: "warning"; readonly message: string };

/** Writes synchronously, because the process may die at the next instruction. */
const say = (line: BriefProcessLine): void => void writeSync(1, `${JSON.stringify(line)}\n`);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function main({ project, request, diesAt }: BriefProcessInput): Promise<void> {
  const app = await createApp({
    config: loadConfig(process.env),
    warn: (message) => say({ type: "warning", message }),
    crashPoint: (point) => {
      if (point !== diesAt) return;
      say({ type: "killed", point });
      process.kill(process.pid, "SIGKILL");
    },
  });
  const projectId = projectIdFor("default", project);
  const id = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(id);
  await app.start(new Set([projectId]));
  if ((await app.store.builds.find({ id: buildId })) === null)
    await app.send({ name: "project/build.requested", id, data: { projectId, project, ...request } });
  let build = await app.store.builds.find({ id: buildId });
  while (build === null || build.endedAt === null) {
    if (build?.status === "waiting") await approveWave(app.ports, buildId, { by: null });
    await pause(25);
    build = await app.store.builds.find({ id: buildId });
  }
  const sandbox = await app.store.sandboxes.get({ projectId, state: ["wanted", "running", "stopped", "lost"] });
  await stopSandbox(app.ports, sandbox);
  await removeSandbox(app.ports, sandbox, { volume: false });
  await app.close();
  say({ type: "ended", status: build.status, reason: build.reason });
}

await main(JSON.parse(process.argv[2]!) as BriefProcessInput);
