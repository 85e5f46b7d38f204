// The driver `docker`: one hardened container and one volume per project, on this machine's engine.
//
// DK1. Names follow from the project, and labels name the owner. We never touch what another
// installation made.
// DK2. A project's container and volume change only under the project's lock, which dies with its
// holder. If two data directories share an installation, the engine decides: it refuses a second
// container of the same name.
// DK3. A container holds nothing: its root is read-only, and everything that lasts is on the
// volume. So a container that differs from what is wanted, or does not answer, is replaced.
// DK4. A sandbox is stopped when the engine says so: everything in a container ends with its first
// process.
import type { DriverCapabilities, SandboxDriver } from "../port.ts";
import { checkDocker } from "./docker/check.ts";
import { endpointOf, findRunningContainer } from "./docker/container/running.ts";
import {
  alone,
  type DockerDriverOptions,
  type DockerResources,
  openDockerResources,
} from "./docker/docker-resources.ts";
import { ensure } from "./docker/ensure.ts";
import { listDockerSandboxes, usage, volumeBytes } from "./docker/list.ts";
import { removeDockerSandbox, stopContainerOf } from "./docker/stop.ts";
import { packSnapshot, restoreVolume } from "./docker/volume/snapshot.ts";
import { watchContainers } from "./docker/watch.ts";

export type { DockerDriverOptions } from "./docker/docker-resources.ts";

/**
 * Creates the driver `docker`. Its egress folders and locks are in the data directory; everything
 * else is in the engine.
 */
export function createDockerDriver(given: DockerDriverOptions): SandboxDriver {
  let made: DockerResources | null = null;
  // Lazily, so that `check` works without an engine.
  const resources = (): DockerResources => {
    made ??= openDockerResources(given);
    return made;
  };
  return {
    name: "docker",
    check: () => checkDocker(given),
    capabilities: () => capabilitiesOf(resources()),
    ensure: (spec) => ensure(resources(), spec),
    find: async (projectId) => {
      const running = await findRunningContainer(resources(), projectId);
      return running === null ? null : endpointOf(resources(), running);
    },
    list: () => listDockerSandboxes(resources()),
    usage: (projectId) => usage(resources(), projectId),
    volumeBytes: (projectId, limitMs) => volumeBytes(resources(), projectId, limitMs),
    stop: (projectId) =>
      alone(resources(), projectId, async () => void (await stopContainerOf(resources(), projectId))),
    remove: (projectId, { volume }) =>
      alone(resources(), projectId, () => removeDockerSandbox(resources(), projectId, volume)),
    pack: (projectId, format) => packSnapshot(resources(), projectId, format),
    restore: (projectId, archive, how) => restoreVolume(resources(), projectId, { archive, ...how }),
    watch: (signal) => watchContainers(resources().engine, given.installationId, signal),
  };
}

async function capabilitiesOf({ info, volumes }: DockerResources): Promise<DriverCapabilities> {
  const { MemoryLimit, PidsLimit, CpuCfsQuota } = await info();
  // An engine reports a limit only when its kernel lacks it.
  const kept = (can: boolean | undefined) => (can === false ? "none" : "hard");
  return {
    isolation: "container",
    cpu: kept(CpuCfsQuota),
    memory: kept(MemoryLimit),
    processes: kept(PidsLimit),
    disk: (await volumes.isLimited()) ? "hard" : "watched",
    network: ["none", "allowlist", "open"],
    archives: ["tar.zst", "tar.gz"],
  };
}
