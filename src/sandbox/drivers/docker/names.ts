import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";

// How what we make in Docker is named and marked. A name says whose it is to people; the labels
// decide.

const prefix = "io.wavesmith.";
export const label = {
  installation: `${prefix}installation`,
  /** Where that installation's data lies: once it is gone, what it made is nobody's. */
  dataDir: `${prefix}data-dir`,
  project: `${prefix}project`,
  tenant: `${prefix}tenant`,
  /** The sandbox's id; only a project's own container has it. */
  sandbox: `${prefix}sandbox`,
  /** A hash of everything by which a container was made. */
  spec: `${prefix}spec`,
  /** The same, to be read. */
  wants: `${prefix}wants`,
  /** What a volume or a container besides the sandbox is for. */
  role: `${prefix}role`,
  /** Which process is filling a volume; it is nobody's when that is dead. */
  maker: `${prefix}maker`,
  /** Of a mark: the volume that is the project's from then on, and how many there were before. */
  volume: `${prefix}volume`,
  generation: `${prefix}generation`,
  /** Which set of installed agents a volume of tools, or its mark, is for. */
  tools: `${prefix}tools`,
} as const;

export const role = { volume: "volume", mark: "mark", archive: "archive", tools: "tools" } as const;

export type Labels = Readonly<Record<string, string>>;

export const containerName = (projectId: ProjectId): string => `wavesmith_${checked(projectId)}`;
export const volumeName = (projectId: ProjectId): string => `wavesmith_workspace_${checked(projectId)}`;

function checked(projectId: ProjectId): ProjectId {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is no project's id`);
  return projectId;
}

/** A filter for the engine's lists. */
export const having = (labels: Labels): { label: string[] } => ({
  label: Object.entries(labels).map(([name, value]) => (value === "" ? name : `${name}=${value}`)),
});
