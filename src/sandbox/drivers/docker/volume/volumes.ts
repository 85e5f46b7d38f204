// Volumes. Docker cannot rename a volume, so a restored one keeps its name, and a mark says that
// it is the project's now.
//
// DV1. A project's volume is the one that the mark of the highest generation names; without a mark,
// the one of the usual name.
// DV2. A mark is an empty volume with labels, because creating a volume is a single act of the
// engine, which happens or does not.
// DV3. A volume that is not a project's current one belongs to nobody, unless the process that
// fills it is alive.
// DV4. Marks are removed after the volumes they replaced, and the newest mark last of all, so that
// a replaced volume never becomes the project's again.
import { randomBytes } from "node:crypto";
import type Docker from "dockerode";
import { WavesmithError } from "../../../../domain/errors.ts";
import type { ProjectId } from "../../../../domain/ids.ts";
import { machineBootId, processStart } from "../../../host/processes.ts";
import type { DockerEngine } from "../engine/engine-calls.ts";
import { having, type Labels, label, role, volumeName } from "../names.ts";

export interface Volumes {
  /** Returns the name of the project's volume, which may not exist. */
  current(projectId: ProjectId): Promise<string>;
  /**
   * Creates the volume if need be and returns its name. Fails with `conflict` when another
   * installation owns that name.
   */
  ensure(projectId: ProjectId, owner: Owner): Promise<string>;
  /** Creates a volume for this process to fill. */
  begin(projectId: ProjectId, owner: Owner): Promise<string>;
  /** Makes a filled volume the project's (DV2), and removes the one before. */
  takePlace(projectId: ProjectId, name: string): Promise<void>;
  /** Removes volumes that nobody owns (DV3). */
  tidy(projectId: ProjectId): Promise<void>;
  removeAll(projectId: ProjectId): Promise<void>;
  remove(name: string): Promise<void>;
  /** Returns the complete volume with this set of installed agents; null when there is none yet. */
  findTools(set: string): Promise<string | null>;
  /** Creates a volume for this process to fill. */
  beginTools(tools: Tools): Promise<string>;
  /**
   * Assigns a filled volume to the set, unless another process did so first. Removes unused volumes
   * of other sets.
   */
  markTools(tools: Tools, name: string): Promise<string>;
  /** Returns the volume's name for every project that has one. */
  list(): Promise<ReadonlyMap<ProjectId, string>>;
  /** Whether the engine can limit a volume's size. */
  isLimited(): Promise<boolean>;
}

/** A set of installed agents. */
interface Tools {
  readonly set: string;
  /**
   * Where they are installed. A trial borrows them, so this may differ from the driver's data
   * directory.
   */
  readonly dataDir: string;
}

interface Owner {
  readonly tenantId: string;
  readonly diskBytes: number;
}

type Found = Pick<Docker.VolumeInspectInfo, "Name" | "Labels">;

export function createVolumes(
  engine: DockerEngine,
  { installationId, dataDir }: { installationId: string; dataDir: string },
): Volumes {
  const ownLabels: Labels = { [label.installation]: installationId, [label.dataDir]: dataDir };
  let limited: Promise<boolean> | null = null;
  const isLimited = (): Promise<boolean> => {
    limited ??= trySize(engine, ownLabels);
    limited.catch(() => {
      limited = null;
    });
    return limited;
  };
  const own = (more: Labels = {}): Promise<Found[]> => find(engine, { [label.installation]: installationId, ...more });
  const make = async (name: string, labels: Labels, sizeBytes: number | null): Promise<string> => {
    const found = await create(engine, name, { ...ownLabels, ...labels }, sizeBytes);
    if (found.Labels?.[label.installation] !== installationId) throw foreign(name);
    return name;
  };
  const sizeOf = async ({ diskBytes }: Owner) => ((await isLimited()) ? diskBytes : null);
  const remove = (name: string) => removeVolume(engine, name);
  const volumes: Volumes = {
    isLimited,
    remove,
    current: async (projectId) => currentOf(projectId, await own({ [label.project]: projectId })),
    ensure: async (projectId, owner) => {
      const found = await own({ [label.project]: projectId });
      const name = currentOf(projectId, found);
      if (found.some(({ Name }) => Name === name)) return name;
      return make(name, labelsOf(projectId, owner, {}), await sizeOf(owner));
    },
    begin: async (projectId, owner) => {
      const name = `${volumeName(projectId)}_${randomBytes(5).toString("hex")}`;
      return make(name, labelsOf(projectId, owner, { [label.maker]: ourselves() }), await sizeOf(owner));
    },
    takePlace: async (projectId, name) => {
      const marks = (await own({ [label.project]: projectId })).filter(isMark);
      const next = nextMark(projectId, { name, marks });
      await make(next.name, next.labels, null);
      await volumes.tidy(projectId);
    },
    tidy: async (projectId) => {
      const found = await own({ [label.project]: projectId });
      const current = currentOf(projectId, found);
      const over = found.filter((one) => !isMark(one) && one.Name !== current && !isBeingFilled(one, found));
      for (const { Name } of over) await remove(Name);
      const marks = found.filter(isMark).sort(byGeneration);
      for (const { Name } of marks.slice(0, -1)) await remove(Name); // DV4
    },
    removeAll: async (projectId) => {
      const found = await own({ [label.project]: projectId });
      const others = found.filter((one) => !isMark(one) && !isBeingFilled(one, found));
      for (const { Name } of [...others, ...found.filter(isMark).sort(byGeneration)]) await remove(Name);
    },
    list: async () => currentVolumes(await own()),
    ...toolVolumes({ engine, installationId, own, make }),
  };
  return volumes;
}

/** Returns the mark which says that a volume is the current one from now on. */
function nextMark(
  projectId: ProjectId,
  { name, marks }: { readonly name: string; readonly marks: readonly Found[] },
): { readonly name: string; readonly labels: Labels } {
  const generation = Math.max(0, ...marks.map(generationOf)) + 1;
  const labels = { [label.project]: projectId, [label.role]: role.mark, [label.volume]: name };
  const withGeneration = { ...labels, [label.generation]: String(generation) };
  return { name: `wavesmith_restored_${projectId}_${generation}`, labels: withGeneration };
}

/** Returns the current volume of each project that has one. */
function currentVolumes(found: readonly Found[]): Map<ProjectId, string> {
  const projects = new Set(
    found.filter((one) => !isMark(one) && isOfProject(one)).map((one) => one.Labels[label.project] as ProjectId),
  );
  const there = new Set(found.map(({ Name }) => Name));
  const names = [...projects].map((projectId) => {
    const ofProject = found.filter((one) => one.Labels[label.project] === projectId);
    return [projectId, currentOf(projectId, ofProject)] as const;
  });
  return new Map(names.filter(([, name]) => there.has(name)));
}

interface VolumeAccess {
  readonly engine: DockerEngine;
  readonly installationId: string;
  /** Finds the volumes of this installation that have these labels. */
  readonly own: (more?: Labels) => Promise<Found[]>;
  readonly make: (name: string, labels: Labels, sizeBytes: number | null) => Promise<string>;
}

/** The volumes with installed agents. */
function toolVolumes(access: VolumeAccess): Pick<Volumes, "findTools" | "beginTools" | "markTools"> {
  const { engine, installationId, own, make } = access;
  return {
    findTools: async (set) => {
      const found = await own({ [label.tools]: set });
      const whole = wholeTools(set, found);
      // Somebody removed the volume by hand; mounting it would create an empty one of its name.
      if (whole === null) for (const mark of found.filter(isMark)) await removeVolume(engine, mark.Name);
      return whole;
    },
    beginTools: ({ set, dataDir }) => {
      const labels = { ...toolLabels(set, dataDir), [label.role]: role.tools, [label.maker]: ourselves() };
      return make(`wavesmith_tools_${randomBytes(8).toString("hex")}`, labels, null);
    },
    markTools: async ({ set, dataDir }, name) => {
      const labels = { ...toolLabels(set, dataDir), [label.role]: role.mark, [label.volume]: name };
      await make(`wavesmith_tools_${installationId}_${set}`, labels, null);
      const found = await own();
      const whole = wholeTools(set, found) ?? name;
      if (whole !== name) await removeVolume(engine, name);
      await removeTools(engine, found, whole);
      return whole;
    },
  };
}

const labelsOf = (projectId: ProjectId, { tenantId }: Owner, more: Labels): Labels => ({
  [label.project]: projectId,
  [label.tenant]: tenantId,
  [label.role]: role.volume,
  ...more,
});

const toolLabels = (set: string, dataDir: string): Labels => ({ [label.tools]: set, [label.dataDir]: dataDir });

const isOfProject = ({ Labels }: Found): boolean => Labels?.[label.project] !== undefined;

function wholeTools(set: string, found: readonly Found[]): string | null {
  const mark = found.find((one) => isMark(one) && one.Labels[label.tools] === set);
  return found.find(({ Name }) => Name === mark?.Labels[label.volume])?.Name ?? null;
}

/**
 * Removes all tools volumes except this one and those being filled. A volume that a container
 * mounts stays for a later call.
 */
async function removeTools(engine: DockerEngine, all: readonly Found[], kept: string): Promise<void> {
  const tools = all.filter(({ Labels }) => Labels?.[label.tools] !== undefined);
  const isOver = (one: Found) => one.Name !== kept && !isBeingFilled(one, tools);
  for (const { Name } of tools.filter((one) => !isMark(one) && isOver(one))) {
    const mark = tools.find((one) => isMark(one) && one.Labels[label.volume] === Name);
    // The mark goes first, so that none names a missing volume. A process that wants this set
    // meanwhile fills another volume.
    if (mark !== undefined) await removeVolume(engine, mark.Name);
    await removeVolume(engine, Name, true);
  }
}

const isMark = (volume: Found): boolean => volume.Labels?.[label.role] === role.mark;
const generationOf = ({ Labels }: Found): number => Number(Labels?.[label.generation] ?? 0);
const byGeneration = (one: Found, other: Found): number => generationOf(one) - generationOf(other);

function currentOf(projectId: ProjectId, found: readonly Found[]): string {
  const newest = found.filter(isMark).sort(byGeneration).at(-1);
  return newest?.Labels[label.volume] ?? volumeName(projectId);
}

/** Identifies this process, also against a later one with the same id. */
export const ourselves = (): string => `${process.pid}/${processStart(process.pid)}/${machineBootId()}`;

/** Whether its maker is alive and has not marked it yet; a marked volume is complete. */
const isBeingFilled = ({ Name, Labels }: Found, all: readonly Found[]): boolean =>
  isAliveMaker(Labels?.[label.maker]) && !all.some((one) => isMark(one) && one.Labels[label.volume] === Name);

/** Whether the process that `ourselves` identified still runs. */
export function isAliveMaker(maker: string | undefined): boolean {
  const [pid, start, boot] = maker?.split("/") ?? [];
  return boot !== undefined && boot === machineBootId() && processStart(Number(pid)) === start;
}

async function find(engine: DockerEngine, labels: Labels): Promise<Found[]> {
  const { Volumes: found } = await engine.call("list its volumes", (docker, limited) =>
    docker.listVolumes({ filters: JSON.stringify(having(labels)), ...limited } as Docker.VolumeListOptions),
  );
  return found ?? [];
}

async function create(engine: DockerEngine, name: string, labels: Labels, sizeBytes: number | null): Promise<Found> {
  const size = sizeBytes === null ? {} : { DriverOpts: { size: String(sizeBytes) } };
  return engine.call(`make the volume ${name}`, async (docker, limited) => {
    // An existing volume of this name stays as it is, with its labels.
    await docker.createVolume({ Name: name, Driver: "local", Labels: { ...labels }, ...size, ...limited });
    return docker.getVolume(name).inspect(limited);
  });
}

/** Removes a volume, waiting for a container that is about to release it. Safe to call twice. */
async function removeVolume(engine: DockerEngine, name: string, unlessUsed = false): Promise<void> {
  const gone = () => undefined;
  await engine.call(
    `remove the volume ${name}`,
    async (docker, limited) => void (await docker.getVolume(name).remove(limited)),
    { on: { 404: gone, ...(unlessUsed ? { 409: gone } : {}) }, limitMs: 120_000 },
  );
}

/**
 * Tries whether volumes can have quotas. They need a file system such as XFS with pquota under the
 * engine, and only trying shows it.
 */
async function trySize(engine: DockerEngine, ownLabels: Labels): Promise<boolean> {
  const name = `wavesmith_trial_${randomBytes(6).toString("hex")}`;
  const labels = { ...ownLabels, [label.role]: role.archive };
  const made = await engine.call(
    "try a quota",
    (docker, limited) =>
      docker.createVolume({
        Name: name,
        Driver: "local",
        Labels: labels,
        DriverOpts: { size: "16777216" },
        ...limited,
      }),
    { on: { 400: () => null, 500: () => null } },
  );
  await removeVolume(engine, name);
  return made !== null;
}

const foreign = (name: string): WavesmithError =>
  new WavesmithError("conflict", `the Docker volume ${name} belongs to another installation of Wavesmith`, {
    remedy: `give this project another name (--project), or, if nobody needs it: docker volume rm ${name}`,
  });
