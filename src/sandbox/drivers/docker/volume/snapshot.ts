// Packs a project's volume, and restores another in its place.
import type { Readable } from "node:stream";
import { WavesmithError } from "../../../../domain/errors.ts";
import type { ProjectId } from "../../../../domain/ids.ts";
import type { ArchiveFormat } from "../../../port.ts";
import { findContainer, removeContainer } from "../container/container.ts";
import { alone, type DockerResources, imageId, makingOf } from "../docker-resources.ts";
import { label } from "../names.ts";
import { stopContainerOf } from "../stop.ts";
import { packVolume, unpackVolume, type VolumeArchiveWork } from "./archive.ts";
import { forgetSize } from "./known-sizes.ts";

/** See `SandboxDriver.pack`. */
export async function packSnapshot(
  resources: DockerResources,
  projectId: ProjectId,
  format: ArchiveFormat,
): Promise<Readable> {
  const volume = await resources.volumes.current(projectId);
  await requireVolume(resources, projectId);
  return packVolume(resources.engine, await archiveWork(resources, projectId, { volume, format }));
}

async function requireVolume({ volumes }: DockerResources, projectId: ProjectId): Promise<void> {
  if ((await volumes.list()).has(projectId)) return;
  throw new WavesmithError("not-found", `project ${projectId} has no volume`);
}

async function archiveWork(
  resources: DockerResources,
  projectId: ProjectId,
  {
    volume,
    format,
    maxBytes = null,
  }: Pick<VolumeArchiveWork, "volume" | "format"> & Partial<Pick<VolumeArchiveWork, "maxBytes">>,
): Promise<VolumeArchiveWork> {
  const labels = { [label.installation]: resources.options.installationId, [label.project]: projectId };
  return { volume, format, maxBytes, labels, image: await imageId(resources), making: await makingOf(resources) };
}

/** See `SandboxDriver.restore`. */
export async function restoreVolume(
  resources: DockerResources,
  projectId: ProjectId,
  how: { archive: Readable; format: ArchiveFormat; maxBytes: number },
): Promise<void> {
  const { archive, format, maxBytes } = how;
  const { engine, volumes, options } = resources;
  const container = await findContainer(engine, projectId, options.installationId);
  const volume = await volumes.begin(projectId, { tenantId: container?.tenantId ?? "", diskBytes: maxBytes });
  try {
    await unpackVolume(engine, await archiveWork(resources, projectId, { volume, format, maxBytes }), archive);
  } catch (error) {
    archive.destroy();
    await volumes.remove(volume);
    throw error;
  }
  await alone(resources, projectId, async () => {
    const present = await stopContainerOf(resources, projectId);
    if (present !== null) await removeContainer(engine, present.id);
    await volumes.takePlace(projectId, volume);
    forgetSize(options.dataDir, projectId);
  });
}
