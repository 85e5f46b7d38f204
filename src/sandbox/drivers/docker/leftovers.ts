// Finds what deleted data directories left in Docker. We report it and remove nothing, because only
// a person knows whether a directory will come back, such as one on an unmounted disk.
import { lstatSync } from "node:fs";
import type Docker from "dockerode";
import { shellWord } from "../../../domain/shell-word.ts";
import { openEngine } from "./engine/engine-calls.ts";
import { having, type Labels, label } from "./names.ts";

export interface DockerLeftovers {
  readonly dataDir: string;
  readonly containers: number;
  readonly volumes: number;
  /** The command that removes it. */
  readonly remedy: string;
}

/**
 * Returns the engine's containers and volumes of data directories that no longer exist, by
 * directory. Fails like every call to the engine.
 */
export async function findLeftovers(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<readonly DockerLeftovers[]> {
  const engine = openEngine(environment);
  const filters = JSON.stringify(having({ [label.dataDir]: "" }));
  const [containers, { Volumes: volumes }] = await Promise.all([
    engine.call("list containers", (docker, limited) => docker.listContainers({ all: true, filters, ...limited })),
    engine.call("list its volumes", (docker, limited) =>
      docker.listVolumes({ filters, ...limited } as Docker.VolumeListOptions),
    ),
  ]);
  const left = { containers: countByPlace(containers), volumes: countByPlace(volumes ?? []) };
  return [...new Set([...left.containers.keys(), ...left.volumes.keys()])]
    .filter(isGone)
    .sort()
    .map((dataDir) => leftoversOf(dataDir, left.containers.get(dataDir) ?? 0, left.volumes.get(dataDir) ?? 0));
}

/** False when this user may not look. */
function isGone(dataDir: string): boolean {
  try {
    lstatSync(dataDir);
    return false;
  } catch (error) {
    return ["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}

function countByPlace(found: readonly { readonly Labels?: Labels }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { Labels } of found) {
    const dataDir = Labels?.[label.dataDir];
    if (dataDir !== undefined) counts.set(dataDir, (counts.get(dataDir) ?? 0) + 1);
  }
  return counts;
}

function leftoversOf(dataDir: string, containers: number, volumes: number): DockerLeftovers {
  const filter = `--filter ${shellWord(`label=${label.dataDir}=${dataDir}`)}`;
  // A volume can be removed only when no container uses it.
  const commands = [
    ...(containers > 0 ? [`docker rm -f $(docker ps -aq ${filter})`] : []),
    ...(volumes > 0 ? [`docker volume rm $(docker volume ls -q ${filter})`] : []),
  ];
  return { dataDir, containers, volumes, remedy: commands.join(" && ") };
}
