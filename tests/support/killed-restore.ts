// A process that restores a volume in Docker, for tests that kill it. Its argument is the request.
// It is killed before its n-th request to the engine, or with half of the archive read, and exits
// with 0 if it finishes before that.
import { readFileSync } from "node:fs";
import http from "node:http";
import { Readable } from "node:stream";
import type { ProjectId } from "../../src/domain/ids.ts";
import { createDockerDriver, type DockerDriverOptions } from "../../src/sandbox/drivers/docker.ts";
import { usually } from "./usual-limits.ts";

export interface RestoreRequest {
  readonly options: DockerDriverOptions;
  readonly projectId: string;
  /** The path of a tar.gz. */
  readonly archive: string;
  readonly killedAt: number | "half";
}

const { options, projectId, archive, killedAt } = JSON.parse(process.argv[2]!) as RestoreRequest;
const dieNow = (): void => void process.kill(process.pid, "SIGKILL");

let requests = 0;
const request = http.request;
// The engine's client calls this for each request.
http.request = ((...args: Parameters<typeof request>) => {
  requests += 1;
  if (requests === killedAt) dieNow();
  return request(...args);
}) as typeof request;

async function* parts(): AsyncGenerator<Buffer> {
  const bytes = readFileSync(archive);
  yield bytes.subarray(0, bytes.length / 2);
  // Once the data passed so far has been taken.
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (killedAt === "half") dieNow();
  yield bytes.subarray(bytes.length / 2);
}

await createDockerDriver(options).restore(projectId as ProjectId, Readable.from(parts()), usually("tar.gz"));
process.exit(0);
