import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";

// A process that starts or continues a build and can be killed at any moment. Its settings come
// from the environment, as on the command line; its argument is JSON. Prints one JSON object per
// line.

export interface BuildProcessInput {
  readonly project: string;
  readonly plan: Record<string, unknown>;
  /** Kills itself at this crash point, counted from the first one it reaches; null: never. */
  readonly crashAt: number | null;
  /** Part of the request: a person is there to be asked. */
  readonly interactive?: boolean;
  /**
   * How long the sandbox and the database stay up when nobody uses them any more; absent: as long
   * as usual.
   */
  readonly orphanLimitMs?: number;
}

export type BuildProcessLine =
  | { readonly type: "started"; readonly buildId: string; readonly projectId: string }
  | { readonly type: "ended"; readonly status: string; readonly reason: string | null; readonly ran: string }
  | { readonly type: "warning"; readonly message: string };

const say = (line: BuildProcessLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function main(input: BuildProcessInput): Promise<void> {
  let points = 0;
  const config = loadConfig(process.env);
  const app = await createApp({
    config,
    warn: (message) => say({ type: "warning", message }),
    ...(input.orphanLimitMs === undefined ? {} : { orphanLimitMs: input.orphanLimitMs }),
    crashPoint: () => {
      points += 1;
      if (points === input.crashAt) process.kill(process.pid, "SIGKILL");
    },
  });
  const { project, plan, interactive = false } = input;
  const projectId = projectIdFor("default", project);
  const eventId = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(eventId);
  await app.start(new Set([projectId]));
  if ((await app.store.builds.find({ id: buildId })) === null) {
    const data = { projectId, project, plan, ...{ interactive } };
    await app.send({ name: "project/build.requested", id: eventId, data });
  }
  say({ type: "started", buildId, projectId });
  let build = await app.store.builds.find({ id: buildId });
  while (build === null || build.endedAt === null) {
    await pause(50);
    build = await app.store.builds.find({ id: buildId });
  }
  const sandbox = await app.store.sandboxes.get({ projectId, state: ["wanted", "running", "stopped"] });
  await stopSandbox(app.ports, sandbox);
  await app.close();
  // Read from the volume itself, because a process killed after the build's end may already have
  // ended the sandbox.
  const file = join(config.dataDir, "volumes", projectId, "cache", "ran");
  const ran = existsSync(file) ? readFileSync(file, "utf8") : "";
  say({ type: "ended", status: build.status, reason: build.reason, ran });
}

await main(JSON.parse(process.argv[2]!) as BuildProcessInput);
