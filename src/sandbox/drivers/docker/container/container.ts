// One project's container: its state, and the actions on it.
import { setTimeout as delay } from "node:timers/promises";
import type Docker from "dockerode";
import { WavesmithError } from "../../../../domain/errors.ts";
import type { ProjectId, SandboxId } from "../../../../domain/ids.ts";
import type { DockerEngine } from "../engine/engine-calls.ts";
import { containerName, label, volumeName } from "../names.ts";
import { stopSeconds, type Wants } from "./container-spec.ts";

export interface Container {
  readonly id: string;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly tenantId: string;
  /** Running or paused. */
  readonly isRunning: boolean;
  readonly isPaused: boolean;
  /** It is being removed, or its removal failed. */
  readonly isDying: boolean;
  /** Tells one start from the next. */
  readonly startedAt: string;
  readonly outOfMemory: boolean;
  readonly spec: string;
  readonly wants: Wants | null;
}

/** Covers the guest's own end, then the engine's kill. */
const stopLimitMs = (stopSeconds + 50) * 1_000;
const removalLimitMs = 60_000;

/**
 * Returns the project's container; null without one. Fails with `conflict` when it belongs to
 * another installation.
 */
export async function findContainer(
  engine: DockerEngine,
  projectId: ProjectId,
  installationId: string,
): Promise<Container | null> {
  const name = containerName(projectId);
  const found = await engine.call(
    `look at the container ${name}`,
    (docker, limited) => docker.getContainer(name).inspect(limited),
    { on: { 404: () => null } },
  );
  if (found === null) return null;
  if (found.Config.Labels?.[label.installation] === installationId) return containerOf(projectId, found);
  throw new WavesmithError("conflict", `the Docker container ${name} belongs to another installation of Wavesmith`, {
    remedy: `give this project another name (--project), or, if nobody needs it, such as after its data directory was deleted: docker rm -f ${name}; docker volume rm ${volumeName(projectId)}`,
  });
}

function containerOf(projectId: ProjectId, { Id, State, Config }: Docker.ContainerInspectInfo): Container {
  const labels = Config.Labels;
  return {
    id: Id,
    projectId,
    sandboxId: (labels[label.sandbox] ?? "") as SandboxId,
    tenantId: labels[label.tenant] ?? "",
    isRunning: State.Running && !State.Dead,
    isPaused: State.Paused,
    isDying: State.Dead || State.Status === "removing",
    startedAt: State.StartedAt,
    outOfMemory: State.OOMKilled && !State.Running,
    spec: labels[label.spec] ?? "",
    wants: wantsOf(labels[label.wants]),
  };
}

function wantsOf(text: string | undefined): Wants | null {
  try {
    return text === undefined ? null : (JSON.parse(text) as Wants);
  } catch {
    return null; // Made by another version: everything counts as different.
  }
}

/** Creates the container; false when another process was quicker. */
export async function createContainer(
  engine: DockerEngine,
  options: Docker.ContainerCreateOptions,
  noImage: () => Promise<WavesmithError>,
): Promise<boolean> {
  const made = await engine.call(
    `make the container ${options.name}`,
    (docker, limited) => docker.createContainer({ ...options, ...limited }),
    { on: { 404: () => "no image" as const, 409: () => "there" as const } },
  );
  if (made === "no image") throw await noImage();
  return made !== "there";
}

/** Starts the container unless it runs. Fails with the engine's reason. */
export async function startContainer(engine: DockerEngine, id: string): Promise<void> {
  const runs = () => undefined;
  await engine.call("start a sandbox", async (docker, limited) => void (await docker.getContainer(id).start(limited)), {
    on: { 304: runs },
    limitMs: stopLimitMs,
  });
}

/**
 * Asks the guest to end, then kills what is left; returns when nothing of it runs. Safe to call
 * twice.
 */
export async function stopContainer(engine: DockerEngine, container: Container): Promise<void> {
  const over = () => undefined;
  const { id } = container;
  if (container.isPaused) await resumeContainer(engine, id);
  await engine.call(
    "stop a sandbox",
    async (docker, limited) => void (await docker.getContainer(id).stop({ t: stopSeconds, ...limited })),
    { on: { 304: over, 404: over }, limitMs: stopLimitMs },
  );
}

/** Resumes a container that a person paused. */
export async function resumeContainer(engine: DockerEngine, id: string): Promise<void> {
  const runs = () => undefined;
  await engine.call(
    "resume a sandbox that is paused",
    async (docker, limited) => void (await docker.getContainer(id).unpause(limited)),
    { on: { 404: runs, 409: runs, 500: runs } },
  );
}

/** Kills the container and returns once it is gone. Its volume stays. Safe to call twice. */
export async function removeContainer(engine: DockerEngine, id: string): Promise<void> {
  for (const deadline = performance.now() + removalLimitMs; ; await delay(50)) {
    const isGone = await engine.call(
      "remove a sandbox",
      async (docker, limited) => {
        await docker.getContainer(id).remove({ force: true, ...limited });
        return true;
      },
      // 409: somebody else is removing it, which takes a moment.
      { on: { 404: () => true, 409: () => false }, limitMs: stopLimitMs },
    );
    if (isGone) return;
    if (performance.now() > deadline) {
      throw new WavesmithError("sandbox-unavailable", `the engine did not remove the container ${id.slice(0, 12)}`, {
        retryable: true,
        remedy: `remove it by hand: docker rm -f ${id.slice(0, 12)}`,
      });
    }
  }
}

const logBytes = 2_000;

/** Returns the end of its log, in whole lines. */
export async function lastWords(engine: DockerEngine, id: string): Promise<string> {
  const text = await engine.call(
    "show a sandbox's log",
    (docker, limited) => docker.getContainer(id).logs({ stdout: true, stderr: true, tail: 20, ...limited }),
    { on: { 404: () => Buffer.alloc(0), 409: () => Buffer.alloc(0) } },
  );
  const lastOutput = unframed(Buffer.from(text as unknown as Uint8Array)).trim();
  if (lastOutput.length <= logBytes) return lastOutput;
  const rest = lastOutput.slice(-logBytes);
  return rest.slice(rest.indexOf("\n") + 1);
}

/**
 * Unpacks both outputs from their frames. A frame begins with eight bytes; the last four are its
 * length.
 */
function unframed(log: Buffer): string {
  let text = "";
  for (let at = 0; at + 8 <= log.length; at += 8 + log.readUInt32BE(at + 4)) {
    text += log.toString("utf8", at + 8, at + 8 + log.readUInt32BE(at + 4));
  }
  return text;
}
