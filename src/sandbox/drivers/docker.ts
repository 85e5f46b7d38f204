// The driver `docker`: one hardened container and one volume per project, on the engine of this machine.
//
// D1. Names follow from the project, labels say whose a thing is. What another installation made is never touched.
// D2. What changes a project's container or volume happens under the project's lock, which dies with its holder; where
//     two data folders share an installation, the engine's refusal of a second container of the same name decides.
// D3. A container holds nothing: its root is read-only and everything that lasts is on the volume. So one that is not as
//     wanted, or does not answer, is replaced.
// D4. Stopped means that the engine says so: everything in a container ends with its first process.
import { mkdirSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type Docker from "dockerode";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { guestProtocolVersion } from "../../guest/protocol.ts";
import { modelSocketOf, removeEgress, startEgress, stopEgress } from "../egress/egress.ts";
import type {
  DriverCapabilities,
  GuestClient,
  GuestHealth,
  SandboxDriver,
  SandboxEndpoint,
  SandboxInfo,
  SandboxSpec,
} from "../port.ts";
import { type ArchiveWork, packVolume, removeArchiveContainers, unpackVolume } from "./docker/archive.ts";
import { checkDocker } from "./docker/check.ts";
import {
  type Container,
  createContainer,
  findContainer,
  lastWords,
  removeContainer,
  resumeContainer,
  startContainer,
  stopContainer,
} from "./docker/container.ts";
import { type Making, profileVersion, sandboxContainer, specHash, type Wants } from "./docker/container-spec.ts";
import { type Engine, openEngine } from "./docker/engine-calls.ts";
import { createGuestLink, type GuestLink } from "./docker/guest-link.ts";
import { imageName, imageProblem } from "./docker/image.ts";
import { having, label } from "./docker/names.ts";
import { diskBytes, usageOf } from "./docker/usage.ts";
import { createVolumes, type Volumes } from "./docker/volumes.ts";
import { watchContainers } from "./docker/watch.ts";
import { withLock } from "./local/lock.ts";

export interface DockerDriverOptions {
  readonly dataDir: string;
  readonly installationId: string;
  /** Where Docker is (DOCKER_HOST), as in the settings. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly logger?: { warn(message: string): void };
  /** Another image than the one of this version. */
  readonly image?: string;
  /** How long a guest lives on to which nobody speaks (W9); the guest's own limit when absent. */
  readonly silenceMs?: number;
}

const lockWaitMs = 120_000;
const startLimitMs = 120_000;
/** How long a guest that runs may leave us without an answer, on a machine that is busy. */
const patienceMs = 20_000;
const answerMs = 5_000;
const recentMs = 1_000;

/** Everything the driver works with. */
interface House {
  readonly options: DockerDriverOptions;
  readonly image: string;
  readonly engine: Engine;
  readonly volumes: Volumes;
  readonly links: Map<ProjectId, { readonly start: string; readonly link: GuestLink }>;
  /** What the engine is and can do; asked once. */
  info(): Promise<EngineInfo>;
  /** Whether open files can be limited here; found out by trying. */
  limitsFiles: boolean;
}

interface EngineInfo {
  readonly NCPU: number;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
  readonly CpuCfsQuota?: boolean;
}

interface Running {
  readonly container: Container;
  readonly guest: GuestClient;
  readonly health: GuestHealth;
}

/** The driver `docker`. Egress folders and locks lie in the data directory, everything else is the engine's. */
export function createDockerDriver(given: DockerDriverOptions): SandboxDriver {
  let made: House | null = null;
  // Only when it is used: without an engine at hand it can still be asked what is wrong.
  const house = (): House => {
    made ??= build(given);
    return made;
  };
  return {
    name: "docker",
    check: () => checkDocker({ environment: given.environment, ...(given.image ? { image: given.image } : {}) }),
    capabilities: () => capabilitiesOf(house()),
    ensure: (spec) => ensure(house(), spec),
    find: async (projectId) => {
      const running = await findRunning(house(), projectId);
      return running === null ? null : endpointOf(house(), running);
    },
    list: () => list(house()),
    usage: (projectId) => usage(house(), projectId),
    volumeBytes: (projectId, limitMs) => volumeBytes(house(), projectId, limitMs),
    stop: (projectId) => alone(house(), projectId, async () => void (await stop(house(), projectId))),
    remove: (projectId, { volume }) => alone(house(), projectId, () => remove(house(), projectId, volume)),
    pack: async (projectId, format) => {
      const volume = await house().volumes.current(projectId);
      await requireVolume(house(), projectId);
      return packVolume(house().engine, await archiveWork(house(), projectId, { volume, format }));
    },
    restore: (projectId, archive, how) => restore(house(), projectId, { archive, ...how }),
    watch: (signal) => watchContainers(house().engine, given.installationId, signal),
  };
}

function build(given: DockerDriverOptions): House {
  mkdirSync(given.dataDir, { recursive: true, mode: 0o700 });
  const options = { ...given, dataDir: realpathSync(resolve(given.dataDir)) };
  const engine = openEngine(given.environment);
  let info: Promise<EngineInfo> | null = null;
  return {
    options,
    image: given.image ?? imageName(),
    engine,
    volumes: createVolumes(engine, given.installationId),
    links: new Map(),
    limitsFiles: true,
    info: () => {
      info ??= engine.call(
        "tell what it is",
        (docker, limited) => docker.info(limited as never) as unknown as Promise<EngineInfo>,
      );
      info.catch(() => {
        info = null;
      });
      return info;
    },
  };
}

function alone<Result>({ options }: House, projectId: ProjectId, work: () => Promise<Result>): Promise<Result> {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is no project's id`);
  return withLock(join(options.dataDir, "locks", `sandbox-${projectId}`), lockWaitMs, work);
}

async function capabilitiesOf({ info, volumes }: House): Promise<DriverCapabilities> {
  const { MemoryLimit, PidsLimit, CpuCfsQuota } = await info();
  // An engine that does not say has them: only one whose kernel lacks something says so.
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

// --- One that runs -----------------------------------------------------------------------------------------------------

/**
 * The sandbox that runs and answers, else null; one that stays silent counts as dead, with a warning. What it said within
 * the last second is `isRecentEnough`, or it is asked.
 */
async function findRunning(house: House, projectId: ProjectId, isRecentEnough = true): Promise<Running | null> {
  for (const deadline = performance.now() + patienceMs; ; await delay(50)) {
    const container = await findContainer(house.engine, projectId, house.options.installationId);
    if (container === null || !container.isRunning || container.isPaused) return null;
    const answered = await askHealth(house, container, isRecentEnough);
    if (typeof answered !== "string") return { container, ...answered };
    if (performance.now() > deadline) {
      house.options.logger?.warn(`the guest of ${projectId} does not answer: ${answered}`);
      return null;
    }
  }
}

/** The guest and how it is, or why there is no answer. */
async function askHealth(
  house: House,
  container: Container,
  isRecentEnough = true,
): Promise<Omit<Running, "container"> | string> {
  const link = linkTo(house, container);
  const { answered, guest } = link;
  if (isRecentEnough && answered !== null && performance.now() - answered.atMs < recentMs)
    return { guest, health: answered.health };
  try {
    const health = await guest.health(AbortSignal.timeout(answerMs));
    link.answered = { health, atMs: performance.now() };
    return { guest, health };
  } catch (error) {
    return messageOf(error);
  }
}

/** One link for each start of a container: its connections are kept, and every step of every task asks for it. */
function linkTo({ links, engine }: House, { projectId, id, startedAt }: Container): GuestLink {
  const start = `${id} ${startedAt}`;
  const known = links.get(projectId);
  if (known?.start === start) return known.link;
  known?.link.close();
  const link = createGuestLink(engine, id, projectId);
  links.set(projectId, { start, link });
  return link;
}

function endpointOf({ options }: House, { container, guest, health }: Running): SandboxEndpoint {
  const workspaceRoot = health.workspaceRoot.replace(/\/+$/, "");
  const modelSocket = modelSocketOf({ dataDir: options.dataDir, projectId: container.projectId });
  return { sandboxId: container.sandboxId, guest, workspaceRoot, bootId: health.bootId, modelSocket };
}

// --- One that is wanted ------------------------------------------------------------------------------------------------

async function ensure(house: House, spec: SandboxSpec): Promise<SandboxEndpoint> {
  const wants = await wantsOf(house, spec);
  const found = await findRunning(house, spec.projectId);
  if (found !== null && serves(found, wants)) return endpointOf(house, found);
  return alone(house, spec.projectId, async () => {
    // How busy it is decides now.
    const running = await findRunning(house, spec.projectId, false);
    if (running !== null) {
      if (serves(running, wants)) return endpointOf(house, running);
      if (running.health.activeJobs > 0) throw inUse(running, wants);
    }
    return endpointOf(house, await begin(house, spec, wants));
  });
}

async function wantsOf(house: House, spec: SandboxSpec): Promise<Wants> {
  const { dataDir, installationId } = house.options;
  const { projectId, network, limits } = spec;
  const egress = (await startEgress({ dataDir, installationId, projectId, policy: network })).folder;
  return { image: await imageId(house), network: network.mode, limits, egress, profile: profileVersion };
}

async function imageId({ engine, image }: House): Promise<string> {
  const found = await engine.call(
    "look at an image",
    (docker, limited) => docker.getImage(image).inspect(limited as never) as unknown as Promise<{ Id: string }>,
    { on: { 404: () => null } },
  );
  if (found === null) throw await withoutImage({ engine, image });
  return found.Id;
}

async function withoutImage({ engine, image }: Pick<House, "engine" | "image">): Promise<WavesmithError> {
  const problem = await engine.call("look at an image", (docker) => imageProblem(docker, image));
  return new WavesmithError("environment", problem?.what ?? `the image ${image} was replaced`, {
    retryable: problem === null,
    remedy: problem?.remedy ?? "try again",
  });
}

/** Whether what runs is what is wanted. A new image alone does not end the jobs of a sandbox that is at work. */
function serves({ container, health }: Running, wants: Wants): boolean {
  if (health.protocol !== guestProtocolVersion) return false;
  if (container.spec === specHash(wants)) return true;
  const isOnlyOlder =
    container.wants !== null && specHash({ ...container.wants, image: wants.image }) === specHash(wants);
  return isOnlyOlder && health.activeJobs > 0;
}

function inUse({ container, health }: Running, wants: Wants): WavesmithError {
  const keys = ["image", "network", "limits", "egress", "profile"] as const;
  const differing = keys
    .filter((key) => JSON.stringify(container.wants?.[key]) !== JSON.stringify(wants[key]))
    .map((key) => `${key} ${JSON.stringify(container.wants?.[key])} instead of ${JSON.stringify(wants[key])}`);
  const how = differing.length > 0 ? differing.join(" and ") : `protocol ${health.protocol}`;
  const what = `the sandbox of ${container.projectId} runs with ${how}`;
  return new WavesmithError("conflict", `${what}, and ${health.activeJobs} of its jobs are active`, {
    retryable: true,
    remedy: "wait for its jobs to end or cancel them, then try again",
  });
}

/** Starts the container there is, when it is as wanted, else a new one in its place. Under the lock. */
async function begin(house: House, spec: SandboxSpec, wants: Wants): Promise<Running> {
  const { engine, volumes, options } = house;
  const present = await findContainer(engine, spec.projectId, options.installationId);
  if (present?.isPaused === true && present.spec === specHash(wants)) {
    await resumeContainer(engine, present.id);
    const resumed = await findRunning(house, spec.projectId);
    if (resumed !== null) return resumed;
  }
  await removeArchiveContainers(
    engine,
    { [label.installation]: options.installationId, [label.project]: spec.projectId },
    false,
  );
  await volumes.tidy(spec.projectId);
  const owner = { tenantId: spec.tenantId, diskBytes: spec.limits.diskBytes };
  const volume = await volumes.ensure(spec.projectId, owner);
  const isReady = present !== null && !present.isRunning && !present.isDying && present.spec === specHash(wants);
  if (isReady && (await restart(house, present))) return untilReady(house, spec.projectId);
  if (present !== null) {
    if (present.isRunning) await stopContainer(engine, present);
    await removeContainer(engine, present.id);
  }
  await create(house, spec, wants, volume);
  return untilReady(house, spec.projectId);
}

/** False when the engine cannot start it any more; then a new one is made. */
async function restart({ engine, options }: House, { id, projectId }: Container): Promise<boolean> {
  try {
    await startContainer(engine, id);
    return true;
  } catch (error) {
    if (!(error instanceof WavesmithError) || error.code !== "environment") throw error;
    options.logger?.warn(`the container of ${projectId} is made anew: ${error.message}`);
    return false;
  }
}

async function create(house: House, spec: SandboxSpec, wants: Wants, volume: string): Promise<void> {
  const options = sandboxContainer(spec, wants, volume, await makingOf(house));
  await createContainer(house.engine, options, () => withoutImage(house));
  try {
    await startContainer(house.engine, options.name!);
  } catch (error) {
    // An engine that has a lower limit itself can set none.
    if (!house.limitsFiles || !/rlimit/i.test(messageOf(error))) throw error;
    house.limitsFiles = false;
    await removeContainer(house.engine, options.name!);
    await create(house, spec, wants, volume);
  }
}

async function makingOf({ info, options, limitsFiles }: House): Promise<Making> {
  const { installationId, silenceMs = null } = options;
  return { installationId, processors: (await info()).NCPU, limitsFiles, silenceMs };
}

async function untilReady(house: House, projectId: ProjectId): Promise<Running> {
  const { engine, options } = house;
  let answered: Awaited<ReturnType<typeof askHealth>> = "";
  let id = "";
  for (const deadline = performance.now() + startLimitMs; performance.now() < deadline; await delay(20)) {
    const container = await findContainer(engine, projectId, options.installationId);
    id = container?.id ?? id;
    if (container === null || !container.isRunning) break;
    answered = await askHealth(house, container);
    if (typeof answered !== "string") return { container, ...answered };
  }
  const words = id === "" ? "" : await lastWords(engine, id);
  throw new WavesmithError("sandbox-unavailable", `the sandbox of ${projectId} did not start: ${answered}\n${words}`, {
    retryable: true,
    remedy: "see what `wavesmith doctor` says",
  });
}

// --- Its end -----------------------------------------------------------------------------------------------------------

async function stop(house: House, projectId: ProjectId): Promise<Container | null> {
  const { engine, options } = house;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container !== null) await stopContainer(engine, container);
  house.links.get(projectId)?.link.close();
  house.links.delete(projectId);
  await stopEgress({ ...options, projectId });
  return container;
}

async function remove(house: House, projectId: ProjectId, volume: boolean): Promise<void> {
  const { engine, options, volumes } = house;
  const container = await stop(house, projectId);
  if (container !== null) await removeContainer(engine, container.id);
  const labels = { [label.installation]: options.installationId, [label.project]: projectId };
  await removeArchiveContainers(engine, labels, volume);
  if (volume) await volumes.removeAll(projectId);
  await removeEgress({ ...options, projectId });
}

// --- Its volume --------------------------------------------------------------------------------------------------------

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

async function restore(
  house: House,
  projectId: ProjectId,
  how: { archive: Parameters<SandboxDriver["restore"]>[1]; format: ArchiveWork["format"]; maxBytes: number },
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
  });
}

// --- What there is -----------------------------------------------------------------------------------------------------

async function usage(house: House, projectId: ProjectId) {
  const { engine, options } = house;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null || !container.isRunning || container.isPaused) return null;
  const [used, disk] = await Promise.all([usageOf(engine, container.id), diskBytes(engine, container.id)]);
  return { ...used, diskBytes: disk };
}

async function volumeBytes(house: House, projectId: ProjectId, limitMs: number): Promise<number | null> {
  const { engine, options } = house;
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null || !container.isRunning || container.isPaused) return null;
  return diskBytes(engine, container.id, limitMs);
}

async function list(house: House): Promise<SandboxInfo[]> {
  const { engine, options, volumes } = house;
  const filters = JSON.stringify(having({ [label.installation]: options.installationId, [label.sandbox]: "" }));
  const containers = await engine.call("list containers", (docker, limited) =>
    docker.listContainers({ all: true, filters, ...limited } as Docker.ContainerListOptions),
  );
  const names = await volumes.list();
  const projects = containers.map(({ Labels }) => Labels[label.project] as ProjectId);
  const infos = await Promise.all(projects.map((projectId) => infoOf(house, projectId, names.get(projectId) ?? null)));
  const left = [...names].filter(([projectId]) => !projects.includes(projectId));
  return [...infos.filter((info) => info !== null), ...left.map(([projectId, name]) => removedInfo(projectId, name))];
}

async function infoOf({ engine, options }: House, projectId: ProjectId, volume: string | null) {
  const container = await findContainer(engine, projectId, options.installationId);
  if (container === null) return volume === null ? null : removedInfo(projectId, volume); // It went meanwhile.
  const { isRunning, isPaused, id } = container;
  return {
    projectId,
    sandboxId: container.sandboxId,
    state: isRunning ? "running" : "stopped",
    startedAt: isRunning ? container.startedAt : null,
    volumePath: volume === null ? null : volumePath(volume),
    // Counting what lies on a volume that nobody has mounted would take a container of its own.
    diskBytes: isRunning && !isPaused ? await diskBytes(engine, id) : null,
    outOfMemory: container.outOfMemory,
  } satisfies SandboxInfo;
}

const volumePath = (volume: string): string => `docker:${volume}`;

const removedInfo = (projectId: ProjectId, volume: string): SandboxInfo => ({
  projectId,
  sandboxId: null,
  state: "removed",
  startedAt: null,
  volumePath: volumePath(volume),
  diskBytes: null,
  outOfMemory: false,
});
