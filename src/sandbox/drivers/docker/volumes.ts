// Volumes. Docker cannot rename one, so a restored volume keeps the name it was made with, and a
// mark says that it is the project's now.
//
// V1. A project's volume is the one that the mark of the highest generation names; without a mark,
// the one of the usual name.
// V2. A mark is a volume of its own, empty, with labels: making one is a single act of the engine,
// which is done or not.
// V3. A volume that is not the project's is nobody's, unless the process that is filling it lives.
// V4. Marks are removed after the volumes they have overtaken, and the newest one after everything
// else: what was overtaken never becomes the project's again.
import { randomBytes } from "node:crypto";
import type Docker from "dockerode";
import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";
import { machineBootId, processStart } from "../../host/processes.ts";
import type { Engine } from "./engine-calls.ts";
import { having, type Labels, label, role, volumeName } from "./names.ts";

export interface Volumes {
  /** The name of the project's volume, which need not be there. */
  current(projectId: ProjectId): Promise<string>;
  /**
   * Makes it if need be; its name. Fails with `conflict` when another installation has one of that
   * name.
   */
  ensure(projectId: ProjectId, owner: Owner): Promise<string>;
  /** A new one, to be filled by this process. */
  begin(projectId: ProjectId, owner: Owner): Promise<string>;
  /** Makes a filled one the project's (V2), and removes the one before. */
  takePlace(projectId: ProjectId, name: string): Promise<void>;
  /** Removes what is nobody's (V3). */
  tidy(projectId: ProjectId): Promise<void>;
  removeAll(projectId: ProjectId): Promise<void>;
  remove(name: string): Promise<void>;
  /** The whole volume with this set of installed agents; null when there is none yet. */
  findTools(set: string): Promise<string | null>;
  /** A new one, to be filled by this process. */
  beginTools(tools: Tools): Promise<string>;
  /**
   * Makes a filled one that of the set, unless another process was quicker; removes those of other
   * sets that nobody uses.
   */
  markTools(tools: Tools, name: string): Promise<string>;
  /** Of every project with a volume, its name. */
  list(): Promise<ReadonlyMap<ProjectId, string>>;
  /** Whether the engine keeps a volume to its size. */
  isLimited(): Promise<boolean>;
}

/** A set of installed agents. */
interface Tools {
  readonly set: string;
  /**
   * Where they are installed, which need not be where this driver's data lies: a trial borrows
   * them.
   */
  readonly dataDir: string;
}

interface Owner {
  readonly tenantId: string;
  readonly diskBytes: number;
}

type Found = Pick<Docker.VolumeInspectInfo, "Name" | "Labels">;

export function createVolumes(
  engine: Engine,
  { installationId, dataDir }: { installationId: string; dataDir: string },
): Volumes {
  const mine: Labels = { [label.installation]: installationId, [label.dataDir]: dataDir };
  let limited: Promise<boolean> | null = null;
  const isLimited = (): Promise<boolean> => {
    limited ??= trySize(engine, mine);
    limited.catch(() => {
      limited = null;
    });
    return limited;
  };
  const own = (more: Labels = {}): Promise<Found[]> => find(engine, { [label.installation]: installationId, ...more });
  const make = async (name: string, labels: Labels, sizeBytes: number | null): Promise<string> => {
    const found = await create(engine, name, { ...mine, ...labels }, sizeBytes);
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
      const generation = Math.max(0, ...marks.map(generationOf)) + 1;
      const labels = { [label.project]: projectId, [label.role]: role.mark, [label.volume]: name };
      const markName = `wavesmith_restored_${projectId}_${generation}`;
      await make(markName, { ...labels, [label.generation]: String(generation) }, null);
      await volumes.tidy(projectId);
    },
    tidy: async (projectId) => {
      const found = await own({ [label.project]: projectId });
      const current = currentOf(projectId, found);
      const over = found.filter((one) => !isMark(one) && one.Name !== current && !isBeingFilled(one, found));
      for (const { Name } of over) await remove(Name);
      const marks = found.filter(isMark).sort(byGeneration);
      for (const { Name } of marks.slice(0, -1)) await remove(Name); // V4
    },
    removeAll: async (projectId) => {
      const found = await own({ [label.project]: projectId });
      const others = found.filter((one) => !isMark(one) && !isBeingFilled(one, found));
      for (const { Name } of [...others, ...found.filter(isMark).sort(byGeneration)]) await remove(Name);
    },
    list: async () => {
      const found = await own();
      const projects = new Set(
        found.filter((one) => !isMark(one) && isOfProject(one)).map((one) => one.Labels[label.project] as ProjectId),
      );
      const there = new Set(found.map(({ Name }) => Name));
      const names = [...projects].map((projectId) => {
        const ofProject = found.filter((one) => one.Labels[label.project] === projectId);
        return [projectId, currentOf(projectId, ofProject)] as const;
      });
      return new Map(names.filter(([, name]) => there.has(name)));
    },
    findTools: async (set) => {
      const found = await own({ [label.tools]: set });
      const whole = wholeTools(set, found);
      // Somebody removed the volume by hand: the engine would make an empty one of its name.
      if (whole === null) for (const mark of found.filter(isMark)) await remove(mark.Name);
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
      if (whole !== name) await remove(name);
      await removeTools(engine, found, whole);
      return whole;
    },
  };
  return volumes;
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
 * All but this one and those that are being filled. One that a container has mounted stays, for a
 * later time.
 */
async function removeTools(engine: Engine, all: readonly Found[], kept: string): Promise<void> {
  const tools = all.filter(({ Labels }) => Labels?.[label.tools] !== undefined);
  const isOver = (one: Found) => one.Name !== kept && !isBeingFilled(one, tools);
  for (const { Name } of tools.filter((one) => !isMark(one) && isOver(one))) {
    const mark = tools.find((one) => isMark(one) && one.Labels[label.volume] === Name);
    // First, so that no mark names a volume that is gone. Who wants that set again meanwhile fills
    // another.
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

/** Tells this process from every other one, also from one that has its number later. */
export const ourselves = (): string => `${process.pid}/${processStart(process.pid)}/${machineBootId()}`;

/** One with a mark is filled, also by a process that lives on. */
const isBeingFilled = ({ Name, Labels }: Found, all: readonly Found[]): boolean =>
  isAliveMaker(Labels?.[label.maker]) && !all.some((one) => isMark(one) && one.Labels[label.volume] === Name);

/** Whether the process that wrote `ourselves` down is still there. */
export function isAliveMaker(maker: string | undefined): boolean {
  const [pid, start, boot] = maker?.split("/") ?? [];
  return boot !== undefined && boot === machineBootId() && processStart(Number(pid)) === start;
}

async function find(engine: Engine, labels: Labels): Promise<Found[]> {
  const { Volumes: found } = await engine.call("list its volumes", (docker, limited) =>
    docker.listVolumes({ filters: JSON.stringify(having(labels)), ...limited } as Docker.VolumeListOptions),
  );
  return found ?? [];
}

async function create(engine: Engine, name: string, labels: Labels, sizeBytes: number | null): Promise<Found> {
  const size = sizeBytes === null ? {} : { DriverOpts: { size: String(sizeBytes) } };
  return engine.call(`make the volume ${name}`, async (docker, limited) => {
    // One of this name is left as it is, with its labels.
    await docker.createVolume({ Name: name, Driver: "local", Labels: { ...labels }, ...size, ...limited });
    return docker.getVolume(name).inspect(limited);
  });
}

/** Safe to do twice. A container that has it mounted and ends just now is waited for. */
async function removeVolume(engine: Engine, name: string, unlessUsed = false): Promise<void> {
  const gone = () => undefined;
  await engine.call(
    `remove the volume ${name}`,
    async (docker, limited) => void (await docker.getVolume(name).remove(limited)),
    { on: { 404: gone, ...(unlessUsed ? { 409: gone } : {}) }, limitMs: 120_000 },
  );
}

/**
 * A quota for a volume needs a file system of the engine's that has them (XFS with pquota); only
 * trying tells.
 */
async function trySize(engine: Engine, mine: Labels): Promise<boolean> {
  const name = `wavesmith_trial_${randomBytes(6).toString("hex")}`;
  const labels = { ...mine, [label.role]: role.archive };
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
