// Lists sandboxes and what they use.
import type Docker from "dockerode";
import type { ProjectId } from "../../../domain/ids.ts";
import type { SandboxInfo, SandboxUsage } from "../../port.ts";
import { findContainer } from "./container/container.ts";
import type { DockerResources } from "./docker-resources.ts";
import { having, label } from "./names.ts";
import { knownSize } from "./volume/known-sizes.ts";
import { containerDiskBytes, containerLimitedBytes, containerUsage } from "./volume/usage.ts";

/** See `SandboxDriver.usage`. */
export async function usage(resources: DockerResources, projectId: ProjectId): Promise<SandboxUsage | null> {
  const { engine, options } = resources;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null || !container.isRunning || container.isPaused) return null;
  const [used, disk] = await Promise.all([
    containerUsage(engine, container.id),
    containerDiskBytes(engine, container.id),
  ]);
  return { ...used, diskBytes: disk };
}

/** See `SandboxDriver.volumeBytes`. */
export async function volumeBytes(
  resources: DockerResources,
  projectId: ProjectId,
  limitMs: number,
): Promise<number | null> {
  const { engine, options } = resources;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null || !container.isRunning || container.isPaused) return null;
  return containerLimitedBytes(engine, container.id, limitMs);
}

/** See `SandboxDriver.list`. */
export async function listDockerSandboxes(resources: DockerResources): Promise<SandboxInfo[]> {
  const { engine, options, volumes } = resources;
  const filters = JSON.stringify(having({ [label.installation]: options.installationId, [label.sandbox]: "" }));
  const containers = await engine.call("list containers", (docker, limited) =>
    docker.listContainers({ all: true, filters, ...limited } as Docker.ContainerListOptions),
  );
  const names = await volumes.list();
  const projects = containers.map(({ Labels }) => Labels[label.project] as ProjectId);
  const infos = await Promise.all(
    projects.map((projectId) => infoOf(resources, projectId, names.get(projectId) ?? null)),
  );
  const left = [...names].filter(([projectId]) => !projects.includes(projectId));
  return [
    ...infos.filter((info) => info !== null),
    ...left.map(([projectId, name]) => removedInfo(resources, projectId, name)),
  ];
}

async function infoOf(resources: DockerResources, projectId: ProjectId, volume: string | null) {
  const { engine, options } = resources;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null) return volume === null ? null : removedInfo(resources, projectId, volume); // It was removed meanwhile.
  const { isRunning, isPaused, id } = container;
  return {
    projectId,
    sandboxId: container.sandboxId,
    state: isRunning ? "running" : "stopped",
    // The engine reports nanoseconds.
    startedAt: isRunning ? new Date(container.startedAt).toISOString() : null,
    volumePath: volume === null ? null : volumePath(volume),
    ...(isRunning && !isPaused
      ? { diskBytes: await containerDiskBytes(engine, id) }
      : sizeBefore(resources, projectId)),
    outOfMemory: container.outOfMemory,
  } satisfies SandboxInfo;
}

const volumePath = (volume: string): string => `docker:${volume}`;

/** Returns the size counted when the sandbox stopped. */
function sizeBefore(
  { options }: DockerResources,
  projectId: ProjectId,
): Pick<SandboxInfo, "diskBytes" | "diskCountedAt"> {
  const known = knownSize(options.dataDir, projectId);
  return { diskBytes: known?.bytes ?? null, diskCountedAt: known?.at ?? null };
}

const removedInfo = (resources: DockerResources, projectId: ProjectId, volume: string): SandboxInfo => ({
  projectId,
  sandboxId: null,
  state: "removed",
  startedAt: null,
  volumePath: volumePath(volume),
  ...sizeBefore(resources, projectId),
  outOfMemory: false,
});
