import { WavesmithError } from "../../domain/errors.ts";
import { waveRef } from "../../domain/refs/build-refs.ts";
import type { BuildRow, WaveRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/**
 * Returns a person's commit on the wave's branch if it descends from the wave's head and the wave
 * is not delivered; null otherwise.
 */
export async function personsHead(ports: Ports, build: BuildRow, wave: WaveRow): Promise<string | null> {
  if (wave.headSha === null) return null;
  const projectId = build.projectId;
  const branch = await ports.workspace.resolve(projectId, waveRef(build.id, wave.number));
  if (branch === null || branch === wave.headSha) return wave.headSha;
  if (wave.status === "passed" && wave.deliveredAt !== null) {
    const what = `wavesmith/${build.id}/wave-${wave.number} was moved to ${branch.slice(0, 12)} after its wave was delivered`;
    ports.log.warn(`${what}: that is not taken in. Merge it into main once the build is over`);
    return wave.headSha;
  }
  if (await ports.workspace.isAncestor(projectId, wave.headSha, branch)) return branch;
  throw new WavesmithError(
    "conflict",
    `the branch wavesmith/${build.id}/wave-${wave.number} is at ${branch.slice(0, 12)}, which does not descend from the wave's head ${wave.headSha.slice(0, 12)}`,
    {
      remedy: `put it back: git -C ${ports.workspace.repositoryPath(projectId)} update-ref ${waveRef(build.id, wave.number)} ${wave.headSha}`,
    },
  );
}
