// Returns a usable sandbox: the running one if it fits, otherwise the stopped container, started,
// or a new container on the same volume (DK3).

import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import { present } from "../../../domain/known.ts";
import { guestProtocolVersion } from "../../../guest/protocol.ts";
import { endingWith, startEgress } from "../../egress/egress.ts";
import type { SandboxEndpoint, SandboxSpec } from "../../port.ts";
import {
  type Container,
  createContainer,
  findContainer,
  removeContainer,
  resumeContainer,
  startContainer,
  stopContainer,
} from "./container/container.ts";
import { profileVersion, sandboxContainer, specHash, type Wants } from "./container/container-spec.ts";
import { endpointOf, findRunningContainer, type RunningContainer, untilReady } from "./container/running.ts";
import { alone, type DockerResources, imageId, makingOf, withoutImage } from "./docker-resources.ts";
import { label } from "./names.ts";
import { ensureTools } from "./tools.ts";
import { removeArchiveContainers } from "./volume/archive.ts";

/** See `SandboxDriver.ensure`. */
export async function ensure(resources: DockerResources, spec: SandboxSpec): Promise<SandboxEndpoint> {
  const [wants, found] = await Promise.all([wantsOf(resources, spec), findRunningContainer(resources, spec.projectId)]);
  if (found !== null && serves(found, wants)) return endpointOf(resources, found);
  return alone(resources, spec.projectId, async () => {
    // Ask the guest now, because its number of jobs decides.
    const running = await findRunningContainer(resources, spec.projectId, false);
    if (running !== null) {
      if (serves(running, wants)) return endpointOf(resources, running);
      if (running.health.activeJobs > 0) throw inUse(running, wants);
    }
    return endpointOf(resources, await begin(resources, spec, wants));
  });
}

async function wantsOf(resources: DockerResources, spec: SandboxSpec): Promise<Wants> {
  const { dataDir, installationId, silenceMs, runtime = null } = resources.options;
  const { projectId, network, limits } = spec;
  const request = { dataDir, installationId, projectId, policy: network, ...endingWith(silenceMs) };
  const egress = (await startEgress(request)).folder;
  const image = await imageId(resources);
  const tools = await ensureTools(resources, image);
  return { image, network: network.mode, limits, egress, profile: profileVersion, runtime, tools };
}

/**
 * Whether the running sandbox fits. A new image or agent alone does not end the jobs of a busy one.
 */
function serves({ container, health }: RunningContainer, wants: Wants): boolean {
  if (health.protocol !== guestProtocolVersion) return false;
  if (container.spec === specHash(wants)) return true;
  const isOnlyOlder =
    container.wants !== null &&
    specHash({ ...container.wants, image: wants.image, tools: wants.tools }) === specHash(wants);
  return isOnlyOlder && health.activeJobs > 0;
}

function inUse({ container, health }: RunningContainer, wants: Wants): WavesmithError {
  const keys = ["image", "network", "limits", "egress", "profile", "runtime", "tools"] as const;
  const differing = keys
    .filter((key) => JSON.stringify(container.wants?.[key]) !== JSON.stringify(wants[key]))
    .map((key) => `${key} ${JSON.stringify(container.wants?.[key])} instead of ${JSON.stringify(wants[key])}`);
  const how = differing.length > 0 ? differing.join(" and ") : `protocol ${health.protocol}`;
  const what = `the sandbox of ${container.projectId} runs with ${how}`;
  return new WavesmithError("conflict", `${what}, but ${health.activeJobs} of its jobs are active`, {
    retryable: true,
    remedy: `wait for its jobs to end, or end them: wavesmith sandbox stop ${container.projectId}`,
  });
}

/** Starts the existing container if it fits, otherwise a new one. The caller holds the lock. */
async function begin(resources: DockerResources, spec: SandboxSpec, wants: Wants): Promise<RunningContainer> {
  const { engine, volumes, options } = resources;
  const present = await findContainer(engine, spec.projectId, options.installationId);
  if (present?.isPaused === true && present.spec === specHash(wants)) {
    await resumeContainer(engine, present.id);
    const resumed = await findRunningContainer(resources, spec.projectId);
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
  if (isReady && (await restart(resources, present))) return untilReady(resources, spec.projectId);
  if (present !== null) {
    if (present.isRunning) await stopContainer(engine, present);
    await removeContainer(engine, present.id);
  }
  await create(resources, spec, wants, volume);
  return untilReady(resources, spec.projectId);
}

/** Returns false when the engine cannot start the container any more; then a new one is made. */
async function restart({ engine, options }: DockerResources, { id, projectId }: Container): Promise<boolean> {
  try {
    await startContainer(engine, id);
    return true;
  } catch (error) {
    if (!(error instanceof WavesmithError) || error.code !== "environment") throw error;
    options.logger?.warn(`the container of ${projectId} is replaced: ${error.message}`);
    return false;
  }
}

async function create(resources: DockerResources, spec: SandboxSpec, wants: Wants, volume: string): Promise<void> {
  const options = sandboxContainer(spec, wants, volume, await makingOf(resources));
  await createContainer(resources.engine, options, () => withoutImage(resources));
  try {
    await startContainer(resources.engine, present(options.name, "its name"));
  } catch (error) {
    // An engine with a lower limit of its own cannot set one.
    if (!resources.limitsFiles || !/rlimit/i.test(messageOf(error))) throw error;
    resources.limitsFiles = false;
    await removeContainer(resources.engine, present(options.name, "its name"));
    await create(resources, spec, wants, volume);
  }
}
