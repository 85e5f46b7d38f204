// Stopping and removing a sandbox.
import type { ProjectId } from "../../../domain/ids.ts";
import { removeEgress, stopEgress } from "../../egress/egress.ts";
import { type Container, findContainer, removeContainer, stopContainer } from "./container/container.ts";
import type { DockerResources } from "./docker-resources.ts";
import { label } from "./names.ts";
import { removeArchiveContainers } from "./volume/archive.ts";
import { forgetSize, rememberSize } from "./volume/known-sizes.ts";
import { containerDiskBytes } from "./volume/usage.ts";

/** Stops the sandbox (DK4) and returns its container, if any. The caller holds the lock. */
export async function stopContainerOf(resources: DockerResources, projectId: ProjectId): Promise<Container | null> {
  const { engine, options } = resources;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container !== null) {
    if (container.isRunning && !container.isPaused) await noteSize(resources, projectId, container.id);
    await stopContainer(engine, container);
  }
  resources.links.get(projectId)?.link.close();
  resources.links.delete(projectId);
  await stopEgress({ ...options, projectId });
  return container;
}

async function noteSize(
  { engine, options }: DockerResources,
  projectId: ProjectId,
  containerId: string,
): Promise<void> {
  // An engine that is away fails the stop itself, not this.
  const bytes = await containerDiskBytes(engine, containerId).catch(() => null);
  if (bytes === null) forgetSize(options.dataDir, projectId);
  else rememberSize(options.dataDir, projectId, bytes);
}

/** Removes the sandbox, with every volume of the project when asked. The caller holds the lock. */
export async function removeDockerSandbox(
  resources: DockerResources,
  projectId: ProjectId,
  volume: boolean,
): Promise<void> {
  const { engine, options, volumes } = resources;
  const container = await stopContainerOf(resources, projectId);
  if (container !== null) await removeContainer(engine, container.id);
  const labels = { [label.installation]: options.installationId, [label.project]: projectId };
  await removeArchiveContainers(engine, labels, volume);
  if (volume) {
    await volumes.removeAll(projectId);
    forgetSize(options.dataDir, projectId);
  }
  await removeEgress({ ...options, projectId });
}
