// Packs a project's volume, and restores another in its place.
import type { Readable } from "node:stream";
import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";
import type { ArchiveFormat } from "../../port.ts";
import { type ArchiveWork, packVolume, unpackVolume } from "./archive.ts";
import { findContainer, removeContainer } from "./container.ts";
import { alone, type House, imageId, makingOf } from "./house.ts";
import { forgetSize } from "./known-sizes.ts";
import { label } from "./names.ts";
import { stop } from "./stop.ts";

/** See `SandboxDriver.pack`. */
export async function pack(house: House, projectId: ProjectId, format: ArchiveFormat): Promise<Readable> {
  const volume = await house.volumes.current(projectId);
  await requireVolume(house, projectId);
  return packVolume(house.engine, await archiveWork(house, projectId, { volume, format }));
}

async function requireVolume({ volumes }: House, projectId: ProjectId): Promise<void> {
  if ((await volumes.list()).has(projectId)) return;
  throw new WavesmithError("not-found", `project ${projectId} has no volume`);
}

async function archiveWork(
  house: House,
  projectId: ProjectId,
  { volume, format, maxBytes = null }: Pick<ArchiveWork, "volume" | "format"> & Partial<Pick<ArchiveWork, "maxBytes">>,
): Promise<ArchiveWork> {
  const labels = { [label.installation]: house.options.installationId, [label.project]: projectId };
  return { volume, format, maxBytes, labels, image: await imageId(house), making: await makingOf(house) };
}

/** See `SandboxDriver.restore`. */
export async function restore(
  house: House,
  projectId: ProjectId,
  how: { archive: Readable; format: ArchiveFormat; maxBytes: number },
): Promise<void> {
  const { archive, format, maxBytes } = how;
  const { engine, volumes, options } = house;
  const container = await findContainer(engine, projectId, options.installationId);
  const volume = await volumes.begin(projectId, { tenantId: container?.tenantId ?? "", diskBytes: maxBytes });
  try {
    await unpackVolume(engine, await archiveWork(house, projectId, { volume, format, maxBytes }), archive);
  } catch (error) {
    archive.destroy();
    await volumes.remove(volume);
    throw error;
  }
  await alone(house, projectId, async () => {
    const present = await stop(house, projectId);
    if (present !== null) await removeContainer(engine, present.id);
    await volumes.takePlace(projectId, volume);
    forgetSize(options.dataDir, projectId);
  });
}
