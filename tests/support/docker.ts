import { tmpdir } from "node:os";
import type Docker from "dockerode";
import { connectEngine, engineProblem } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import {
  guestHashLabel,
  imageName,
  imageProblem,
  programsHash,
  readPrograms,
} from "../../src/sandbox/drivers/docker/image.ts";
import { guestProgram } from "../../src/sandbox/guest/guest-program.ts";

/**
 * Looks once per run for an engine, and for an image with the guest of these sources;
 * `requires("docker")` reads the result.
 */
export async function lookForDocker(): Promise<void> {
  process.env.WAVESMITH_TEST_DOCKER_LACKS = (await findLack()) ?? "";
}

async function findLack(): Promise<string | null> {
  const make = "make the image with .ci/sandbox-image (or: npm run wavesmith -- sandbox image build)";
  const engine = await engineProblem(process.env);
  if (engine !== null) return `${engine.what}; ${engine.remedy}`;
  const docker = connectEngine(process.env);
  const problem = await imageProblem(docker, imageName());
  if (problem !== null) return `${problem.what}; ${make}`;
  const { Config } = await docker.getImage(imageName()).inspect();
  const current = programsHash(await readPrograms(await guestProgram(tmpdir())));
  if (Config.Labels?.[guestHashLabel] === current) return null;
  const stale = `the guest in ${imageName()} is not that of these sources; ${make}`;
  if (process.env.WAVESMITH_REQUIRE === "all") return stale;
  // People who work on something else do not have to build the image again.
  console.warn(`WARNING: ${stale}`);
  return null;
}

/** A resource of a sandbox in the engine. */
export interface Made {
  readonly what: string;
  /**
   * Whether it certainly belongs to the run with this folder for temporary files; a volume does not
   * say.
   */
  readonly isOurs: boolean;
}

/**
 * Finds every container and volume of sandboxes, of any installation; none if no engine answers.
 */
export async function madeInDocker(folder: string): Promise<Map<string, Made>> {
  const made = new Map<string, Made>();
  if ((await engineProblem(process.env)) !== null) return made;
  const docker = connectEngine(process.env);
  const filters = { label: ["io.wavesmith.installation"] };
  for (const container of await docker.listContainers({ all: true, filters })) {
    made.set(container.Id, {
      what: `container ${container.Names.join(" ")} (${container.State})`,
      isOurs: container.Mounts.some(({ Source }) => Source?.startsWith(`${folder}/`)),
    });
  }
  const { Volumes } = (await docker.listVolumes({ filters })) as { Volumes: Docker.VolumeInspectInfo[] | null };
  for (const { Name } of Volumes ?? []) made.set(`volume ${Name}`, { what: `volume ${Name}`, isOurs: false });
  return made;
}
