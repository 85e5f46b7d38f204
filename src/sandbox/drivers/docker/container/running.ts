// Finds a running sandbox, asks its guest, and waits until it answers.
import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../../../../domain/errors.ts";
import type { ProjectId } from "../../../../domain/ids.ts";
import { modelSocketOf } from "../../../egress/egress.ts";
import type { GuestClient, GuestHealth, SandboxEndpoint } from "../../../port.ts";
import type { DockerResources } from "../docker-resources.ts";
import { complaints, failedPhase } from "./boot-log.ts";
import { type Container, findContainer, lastWords } from "./container.ts";
import { createGuestLink, type GuestLink } from "./guest-link.ts";

const startLimitMs = 120_000;
/** How long a running guest may leave us without an answer on a busy machine. */
const patienceMs = 20_000;
const answerMs = 5_000;
const recentMs = 1_000;

export interface RunningContainer {
  readonly container: Container;
  readonly guest: GuestClient;
  readonly health: GuestHealth;
}

/**
 * Returns the running sandbox if it answers, otherwise null; a silent one counts as dead, with a
 * warning. With `isRecentEnough`, an answer of the last second is reused.
 */
export async function findRunningContainer(
  resources: DockerResources,
  projectId: ProjectId,
  isRecentEnough = true,
): Promise<RunningContainer | null> {
  for (const deadline = performance.now() + patienceMs; ; await delay(50)) {
    const container = await findContainer(resources.engine, projectId, resources.options.installationId);
    if (container === null || !container.isRunning || container.isPaused) return null;
    const answered = await askHealth(resources, container, isRecentEnough);
    if (typeof answered !== "string") return { container, ...answered };
    if (performance.now() > deadline) {
      resources.options.logger?.warn(`the guest of ${projectId} does not answer: ${answered}`);
      return null;
    }
  }
}

/** Returns the guest and its health, or why it does not answer. */
async function askHealth(
  resources: DockerResources,
  container: Container,
  isRecentEnough = true,
): Promise<Omit<RunningContainer, "container"> | string> {
  const link = linkTo(resources, container);
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

/**
 * Returns one link per start of a container. It keeps its connections, because every step of every
 * task uses it.
 */
function linkTo({ links, engine }: DockerResources, { projectId, id, startedAt }: Container): GuestLink {
  const start = `${id} ${startedAt}`;
  const known = links.get(projectId);
  if (known?.start === start) return known.link;
  known?.link.close();
  const link = createGuestLink(engine, id, projectId);
  links.set(projectId, { start, link });
  return link;
}

export function endpointOf(
  { options }: DockerResources,
  { container, guest, health }: RunningContainer,
): SandboxEndpoint {
  const workspaceRoot = health.workspaceRoot.replace(/\/+$/, "");
  const modelSocket = modelSocketOf({ dataDir: options.dataDir, projectId: container.projectId });
  const wall = { isolation: "users", runtime: container.wants?.runtime ?? null } as const;
  return { sandboxId: container.sandboxId, guest, workspaceRoot, bootId: health.bootId, wall, modelSocket };
}

/**
 * Waits for the guest's first answer. Fails with `sandbox-unavailable`, with the container's last
 * words.
 */
export async function untilReady(resources: DockerResources, projectId: ProjectId): Promise<RunningContainer> {
  const { engine, options } = resources;
  let answered: Awaited<ReturnType<typeof askHealth>> = "";
  let id = "";
  for (const deadline = performance.now() + startLimitMs; performance.now() < deadline; await delay(20)) {
    const container = await findContainer(engine, projectId, options.installationId);
    id = container?.id ?? id;
    if (container === null || !container.isRunning) break;
    answered = await askHealth(resources, container);
    if (typeof answered !== "string") return { container, ...answered };
  }
  throw notStarted(projectId, String(answered), id === "" ? "" : await lastWords(engine, id));
}

/** Names the phase that failed, or what the guest did not answer and the container's last words. */
function notStarted(projectId: ProjectId, silence: string, log: string): WavesmithError {
  const failed = failedPhase(log);
  const words = [silence, ...complaints(log)].filter((line) => line !== "").join("\n");
  const why =
    failed === null ? words || "it said nothing" : `its boot phase "${failed.phase}" failed: ${failed.message}`;
  return new WavesmithError("sandbox-unavailable", `the sandbox of ${projectId} did not start: ${why}`, {
    retryable: true,
    remedy: failed?.remedy ?? "run `wavesmith doctor`",
  });
}
