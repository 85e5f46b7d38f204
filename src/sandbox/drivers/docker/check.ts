import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { messageOf } from "../../../domain/errors.ts";
import type { DriverProblem } from "../../port.ts";
import { failedPhase } from "./container/boot-log.ts";
import { guestRights, withRuntime } from "./container/container-spec.ts";
import { connectEngine, engineProblem } from "./engine/engine.ts";
import { imageName, imageProblem, trialLabels } from "./image.ts";

const bootLimitMs = 60_000;

export interface CheckOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The engine's runtime for sandboxes; null: its default. */
  readonly runtime?: string | null;
  /** Replaces the image of this version. */
  readonly image?: string;
}

/**
 * Tries the engine, the image and a container up to its guest's first line; empty when all of it
 * works.
 */
export async function checkDocker(options: CheckOptions): Promise<DriverProblem[]> {
  const { environment, image = imageName(), runtime = null } = options;
  const engine = await engineProblem(environment);
  if (engine !== null) return [engine];
  const docker = connectEngine(environment);
  try {
    await removeOldTrials(docker);
    const problem =
      (await runtimeProblem(docker, runtime)) ??
      (await imageProblem(docker, image)) ??
      (await trialProblem(docker, { image, runtime }));
    return problem === null ? [] : [problem];
  } catch (error) {
    return [{ what: `the Docker engine refused: ${messageOf(error).trim()}`, remedy: "see the log of dockerd" }];
  }
}

/** Removes trial containers of killed processes. */
async function removeOldTrials(docker: Docker): Promise<void> {
  const label = Object.entries(trialLabels).map(([name, value]) => `${name}=${value}`);
  for (const { Id, Created } of await docker.listContainers({ all: true, filters: { label } })) {
    if (Date.now() - Created * 1000 < 10 * bootLimitMs) continue;
    // Another process may be removing it.
    await docker.getContainer(Id).remove({ force: true, v: true }).catch(ignoreGone);
  }
}

function ignoreGone(error: unknown): void {
  const { statusCode } = error as { statusCode?: number };
  if (statusCode !== 404 && statusCode !== 409) throw error;
}

async function runtimeProblem(docker: Docker, runtime: string | null): Promise<DriverProblem | null> {
  if (runtime === null) return null;
  const { Runtimes = {} } = (await docker.info()) as { Runtimes?: Record<string, unknown> };
  if (Object.hasOwn(Runtimes, runtime)) return null;
  return {
    what: `the Docker engine has no runtime ${runtime}; it has ${Object.keys(Runtimes).join(", ")}`,
    remedy: "install it and name it in /etc/docker/daemon.json, or unset WAVESMITH_DOCKER_RUNTIME",
  };
}

/**
 * Starts a sandbox like the driver's, but without a project or a volume; it is gone when this
 * returns.
 */
async function trialProblem(
  docker: Docker,
  { image, runtime }: { image: string; runtime: string | null },
): Promise<DriverProblem | null> {
  const own = "uid=0,gid=0,mode=0700,nosuid,nodev";
  const container = await docker.createContainer({
    Image: image,
    User: "0:0",
    Tty: true, // With a terminal both outputs come as one plain stream.
    Labels: trialLabels,
    HostConfig: {
      ...withRuntime(runtime),
      Init: true,
      NetworkMode: "none",
      CapDrop: ["ALL"],
      CapAdd: [...guestRights],
      SecurityOpt: ["no-new-privileges"],
      ReadonlyRootfs: true,
      Memory: 256 * 1024 ** 2,
      PidsLimit: 64,
      Tmpfs: { "/tmp": "nosuid,nodev", "/run/wavesmith": own, "/workspace": own },
    },
  });
  try {
    await container.start();
    return await bootProblem(container, image);
  } finally {
    await container.remove({ force: true, v: true });
  }
}

async function bootProblem(container: Docker.Container, image: string): Promise<DriverProblem | null> {
  const log = (await container.logs({ follow: true, stdout: true, stderr: true })) as unknown as Readable;
  const timer = setTimeout(() => log.destroy(new Error(`no output for ${bootLimitMs / 1000} s`)), bootLimitMs);
  let text = "";
  try {
    for await (const chunk of log.setEncoding("utf8")) {
      text += chunk;
      if (text.includes('{"ready":true')) return null;
    }
    return bootFailure(text, image);
  } catch (error) {
    return bootFailure(`${text}${messageOf(error)}`, image);
  } finally {
    clearTimeout(timer);
    log.destroy();
  }
}

/**
 * Explains why a container did not come up: by the phase that failed, otherwise by its last line.
 */
export function bootFailure(log: string, image: string): DriverProblem {
  const failed = failedPhase(log);
  if (failed !== null) {
    const { phase, message, remedy } = failed;
    return { what: `a trial sandbox of ${image} failed in its boot phase "${phase}": ${message}`, remedy };
  }
  const last = log.trim().split(/\r?\n/).at(-1) || "it said nothing";
  return {
    what: `a trial sandbox of ${image} did not start: ${last}`,
    remedy: "build the image again: wavesmith sandbox image build",
  };
}
