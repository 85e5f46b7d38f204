// The resources of the Docker driver: the engine, the volumes, and the open links to guests.
import { mkdirSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";
import { withLock } from "../../host/lock.ts";
import type { Making } from "./container/container-spec.ts";
import type { GuestLink } from "./container/guest-link.ts";
import { type DockerEngine, openEngine } from "./engine/engine-calls.ts";
import { imageName, imageProblem } from "./image.ts";
import { createVolumes, type Volumes } from "./volume/volumes.ts";

export interface DockerDriverOptions {
  readonly dataDir: string;
  readonly installationId: string;
  /** Names the engine (DOCKER_HOST), as in the settings. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly logger?: { warn(message: string): void };
  /** The engine's runtime for sandboxes, such as `runsc`; null: its default. */
  readonly runtime?: string | null;
  /** Replaces the image of this version. */
  readonly image?: string;
  /** How long a guest lives without a request (W9); the guest's own limit when absent. */
  readonly silenceMs?: number;
}

const lockWaitMs = 120_000;

/** The engine, the volumes and the links of one driver. */
export interface DockerResources {
  readonly options: DockerDriverOptions;
  readonly image: string;
  readonly engine: DockerEngine;
  readonly volumes: Volumes;
  readonly links: Map<ProjectId, { readonly start: string; readonly link: GuestLink }>;
  /** The engine's description; asked once. */
  info(): Promise<EngineInfo>;
  /** Whether the engine can limit open files; found out by trying. */
  limitsFiles: boolean;
}

interface EngineInfo {
  readonly NCPU: number;
  readonly Architecture: string;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
  readonly CpuCfsQuota?: boolean;
}

/** Prepares the driver's resources; connects to nothing yet. */
export function openDockerResources(given: DockerDriverOptions): DockerResources {
  mkdirSync(given.dataDir, { recursive: true, mode: 0o700 });
  const options = { ...given, dataDir: realpathSync(resolve(given.dataDir)) };
  const engine = openEngine(given.environment);
  let info: Promise<EngineInfo> | null = null;
  return {
    options,
    image: given.image ?? imageName(),
    engine,
    volumes: createVolumes(engine, options),
    links: new Map(),
    limitsFiles: true,
    info: () => {
      info ??= engine.call(
        "tell what it is",
        (docker, limited) => docker.info(limited as never) as unknown as Promise<EngineInfo>,
      );
      info.catch(() => {
        info = null;
      });
      return info;
    },
  };
}

/**
 * Runs `work` under the project's lock, so that no other process changes its container or volume
 * (DK2).
 */
export function alone<Result>(
  { options }: DockerResources,
  projectId: ProjectId,
  work: () => Promise<Result>,
): Promise<Result> {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is not a project id`);
  return withLock(join(options.dataDir, "locks", `sandbox-${projectId}`), lockWaitMs, work);
}

/**
 * Returns the id of the image that sandboxes are made from. Fails with `environment` when it is
 * missing or does not fit.
 */
export async function imageId({ engine, image }: DockerResources): Promise<string> {
  const found = await engine.call(
    "look at an image",
    (docker, limited) => docker.getImage(image).inspect(limited as never) as unknown as Promise<{ Id: string }>,
    { on: { 404: () => null } },
  );
  if (found === null) throw await withoutImage({ engine, image });
  return found.Id;
}

/** Returns the error for a missing or unfit image. */
export async function withoutImage({
  engine,
  image,
}: Pick<DockerResources, "engine" | "image">): Promise<WavesmithError> {
  const problem = await engine.call("look at an image", (docker) => imageProblem(docker, image));
  return new WavesmithError("environment", problem?.what ?? `the image ${image} was replaced`, {
    retryable: problem === null,
    remedy: problem?.remedy ?? "try again",
  });
}

export async function makingOf({ info, options, limitsFiles }: DockerResources): Promise<Making> {
  const { installationId, dataDir, silenceMs = null } = options;
  return { installationId, dataDir, processors: (await info()).NCPU, limitsFiles, silenceMs };
}
