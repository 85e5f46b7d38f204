// Helpers for tests of the Docker driver: resources in the engine, and faults of the engine.
import { basename } from "node:path";
import type Docker from "dockerode";
import type { ProjectId } from "../../src/domain/ids.ts";
import { connectEngine } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import { imageName } from "../../src/sandbox/drivers/docker/image.ts";
import { createDockerDriver, type DockerDriverOptions } from "../../src/sandbox/drivers/docker.ts";
import type { DriverHarness } from "../contract/sandbox-driver.ts";
import { usualLimits } from "./usual-limits.ts";

export const engine = (): Docker => connectEngine(process.env);

/** A separate installation for each data folder, because the engine is shared. */
export const dockerOptions = (dataDir: string): DockerDriverOptions => ({
  dataDir,
  installationId: `inst_${basename(dataDir).replace(/\W/g, "").toLowerCase()}`,
  environment: { PATH: process.env.PATH, HOME: process.env.HOME, DOCKER_HOST: process.env.DOCKER_HOST },
});

/** The resources that the engine holds for the installation of a data folder. */
export async function leftInDocker({ installationId }: Pick<DockerDriverOptions, "installationId">): Promise<string[]> {
  const filters = { label: [`io.wavesmith.installation=${installationId}`] };
  const containers = await engine().listContainers({ all: true, filters });
  const { Volumes } = await engine().listVolumes({ filters: JSON.stringify(filters) as never });
  return [...containers.map(({ Names }) => `container ${Names.join()}`), ...(Volumes ?? []).map(({ Name }) => Name)];
}

export const containerOf = (projectId: ProjectId): Docker.Container => engine().getContainer(`wavesmith_${projectId}`);

export const dockerHarness: DriverHarness = {
  make: (dataDir) => {
    const options = dockerOptions(dataDir);
    return { driver: createDockerDriver(options), choice: { name: "docker", settings: { ...options, readOnly: [] } } };
  },
  kill: async (_dataDir, projectId) => {
    await containerOf(projectId).kill();
    await containerOf(projectId).wait();
  },
  // As between creating the container and starting it; the old container is gone.
  halfStart: async (dataDir, projectId) => {
    await containerOf(projectId).remove({ force: true });
    const { installationId } = dockerOptions(dataDir);
    const half = await engine().createContainer({
      name: `wavesmith_${projectId}`,
      Image: imageName(),
      Labels: {
        "io.wavesmith.installation": installationId,
        "io.wavesmith.project": projectId,
        "io.wavesmith.sandbox": `sbx_${projectId}`,
      },
    });
    return {
      gone: async () => {
        const found = await half.inspect().catch((error: { statusCode?: number }) => error.statusCode);
        if (found !== 404) throw new Error("the half-made container is still there");
      },
    };
  },
  volumePath: (_dataDir, projectId) => `docker:wavesmith_workspace_${projectId}`,
  left: (dataDir) => leftInDocker(dockerOptions(dataDir)),
};

export const smallLimits = { ...usualLimits, cpus: 1, memoryBytes: 256 * 1024 ** 2, processes: 64 };
