import { messageOf } from "../domain/errors.ts";
import { present } from "../domain/known.ts";
import type { SandboxDriver, SandboxEndpoint } from "../sandbox/port.ts";
import type { BuildRow, SandboxRow } from "../store/port.ts";
import { admitSandbox } from "./admit-sandbox.ts";
import { recordBoot } from "./boots.ts";
import { distrustOf, endDistrusted, watchedEndpoint } from "./distrust.ts";
import { noteLoss, whyGone } from "./losses.ts";
import { networkPolicyOf } from "./network-policy.ts";
import type { LifecyclePorts } from "./port.ts";
import { presentStates } from "./sandbox-events.ts";
import { withSandboxAlone } from "./sandbox-locks.ts";

// SL1. A row says `running` from before anybody gets its sandbox until the commit that decides to
// stop it. A stop first takes that state away, provided that `usedAt` has not changed. A use renews
// `usedAt`, provided that the state is still `running`. So when a use and a stop meet, one of them
// sees the other: either the stop gives up, or the use starts the sandbox again.
// SL2. Starting, stopping, removing and replacing happen under a lock of the project, so that a
// start waits for a stop in progress.

/** The age at which a use is recorded again, so that most steps write nothing. */
const touchMs = 10_000;

/**
 * Returns the running sandbox of a build's project, starting or creating it if need be. Starts,
 * losses and returns are events. Fails with `capacity`, retryable, when one would have to start and
 * there is no room.
 */
export async function ensureSandbox(ports: LifecyclePorts, build: BuildRow): Promise<SandboxEndpoint> {
  const { projectId, sandboxDriver } = build;
  const row = await ports.store.sandboxes.find({ projectId, state: "running", driver: sandboxDriver });
  // A sandbox with another network is replaced, under the lock (SL2).
  const serves = row !== null && row.network?.mode === networkPolicyOf(build).mode && distrustOf(row.bootId) === null;
  if (serves && (await isThere(ports, row)) && (await recordUse(ports, row))) return takeSandbox(ports, build, row);
  const started = await withSandboxAlone(ports, projectId, () => startSandbox(ports, build));
  return present(started, "the sandbox");
}

/** Records the use; returns false when somebody has decided to stop the sandbox (SL1). */
async function recordUse(ports: LifecyclePorts, { id, bootId, usedAt }: SandboxRow): Promise<boolean> {
  const now = ports.clock.now();
  if (now.getTime() - usedAt.getTime() < touchMs) return true;
  return (await ports.store.sandboxes.update({ id, bootId, state: "running" }, { usedAt: now })).length > 0;
}

/** Whether the running sandbox is the one in the row. */
async function isThere(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const found = await driverOf(ports, row).find(row.projectId);
  return found !== null && found.bootId === row.bootId;
}

const driverOf = (ports: LifecyclePorts, { driver }: Pick<SandboxRow, "driver">): SandboxDriver => ports.driver(driver);

/**
 * Returns a running sandbox that fits the build; one with another network, for example, is
 * restarted.
 */
async function takeSandbox(ports: LifecyclePorts, build: BuildRow, row: SandboxRow): Promise<SandboxEndpoint> {
  const endpoint = await ensureFromDriver(ports, build, row);
  if (endpoint.bootId !== row.bootId) await recordBoot(ports, row, endpoint);
  const network = networkPolicyOf(build);
  if (row.network?.mode !== network.mode)
    await ports.store.sandboxes.update({ id: row.id, bootId: endpoint.bootId, state: "running" }, { network });
  return endpoint;
}

async function ensureFromDriver(ports: LifecyclePorts, build: BuildRow, row: SandboxRow): Promise<SandboxEndpoint> {
  const endpoint = await driverOf(ports, row).ensure({
    projectId: build.projectId,
    sandboxId: row.id,
    tenantId: build.tenantId,
    network: networkPolicyOf(build),
    limits: row.limits ?? ports.sandboxPolicy.limits,
  });
  // The process that drives the build answers its agents' model calls.
  ports.models.listen(endpoint.modelSocket, build.projectId);
  return watchedEndpoint(endpoint);
}

async function startSandbox(ports: LifecyclePorts, build: BuildRow): Promise<SandboxEndpoint> {
  const { projectId, sandboxDriver: driver } = build;
  const present = await ports.store.sandboxes.find({ projectId, driver, state: presentStates });
  if (present?.state === "running") {
    const why = distrustOf(present.bootId);
    if (why !== null) await endDistrusted(ports, present, why);
    else if (await isThere(ports, present)) return takeSandbox(ports, build, present);
    else await noteLoss(ports, present, await whyGone(ports, present));
  }
  const row = await admitSandbox(ports, build);
  const endpoint = await ensureFromDriver(ports, build, row).catch(async (error: unknown) => {
    const stopped = { state: "stopped", reason: `not started: ${messageOf(error)}` } as const;
    await ports.store.sandboxes.update({ id: row.id, state: "wanted" }, stopped);
    throw error;
  });
  await recordBoot(ports, row, endpoint);
  return endpoint;
}
