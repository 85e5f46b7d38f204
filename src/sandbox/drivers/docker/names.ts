import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";

// How we name and label what we create in Docker. Names are for people; the labels decide.

const prefix = "io.wavesmith.";
export const label = {
  installation: `${prefix}installation`,
  /** The installation's data directory. When it is gone, nobody owns what it made. */
  dataDir: `${prefix}data-dir`,
  project: `${prefix}project`,
  tenant: `${prefix}tenant`,
  /** The sandbox's id; only a project's own container has it. */
  sandbox: `${prefix}sandbox`,
  /** A hash of everything that a container was made from. */
  spec: `${prefix}spec`,
  /** The same as readable JSON. */
  wants: `${prefix}wants`,
  /** The purpose of a volume, or of a container other than the sandbox. */
  role: `${prefix}role`,
  /** The process that is filling a volume; when it is dead, nobody owns the volume. */
  maker: `${prefix}maker`,
  /** On a mark: the volume that is the project's from then on, and its generation. */
  volume: `${prefix}volume`,
  generation: `${prefix}generation`,
  /** The set of installed agents that a tools volume, or its mark, is for. */
  tools: `${prefix}tools`,
} as const;

export const role = { volume: "volume", mark: "mark", archive: "archive", tools: "tools" } as const;

export type Labels = Readonly<Record<string, string>>;

export const containerName = (projectId: ProjectId): string => `wavesmith_${checked(projectId)}`;
export const volumeName = (projectId: ProjectId): string => `wavesmith_workspace_${checked(projectId)}`;

function checked(projectId: ProjectId): ProjectId {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is not a project id`);
  return projectId;
}

/** Returns a filter for the engine's lists. */
export const having = (labels: Labels): { label: string[] } => ({
  label: Object.entries(labels).map(([name, value]) => (value === "" ? name : `${name}=${value}`)),
});
