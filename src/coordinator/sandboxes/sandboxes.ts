import { messageOf } from "../../domain/errors.ts";
import type { SandboxDriver, SandboxEndpoint } from "../../sandbox/port.ts";
import type { BuildRow, SandboxRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { admitSandbox } from "./admit-sandbox.ts";
import { recordBoot } from "./boot-sandbox.ts";
import { distrustOf, endDistrusted, watchedEndpoint } from "./distrust.ts";
import { noteLoss, whyGone } from "./lose-sandbox.ts";
import { networkPolicyOf } from "./network-policy.ts";
import { presentStates, withSandboxAlone } from "./sandbox-events.ts";

// S1. A row says `running` from before its sandbox is given to anybody until the commit in which
// somebody decides to stop it. Whoever stops one first takes that word away, on the condition that
// its `usedAt` is the one he judged by; whoever uses one renews `usedAt` on the condition that the
// word still stands. So of a use and a stop that meet, one sees the other: the stop does not come
// to pass, or the use finds no word and starts the sandbox again.
// S2. Starting, stopping, removing and replacing happen under a lock of the project, so that a
// start waits for a stop that is under way.

/** So old a use has to be to be written down again: most steps then write nothing. */
const touchMs = 10_000;

/**
 * The running sandbox of a build's project, started or made if need be; its birth, its losses and
 * returns are events. Fails with `capacity`, retryable, when one would have to be started and there
 * is no room for it.
 */
export async function ensureSandbox(ports: Ports, build: BuildRow): Promise<SandboxEndpoint> {
  const { projectId, sandboxDriver } = build;
  const row = await ports.store.sandboxes.find({ projectId, state: "running", driver: sandboxDriver });
  // One of another network is replaced, which is done under the lock (S2).
  const serves = row !== null && row.network?.mode === networkPolicyOf(build).mode && distrustOf(row.bootId) === null;
  if (serves && (await isThere(ports, row)) && (await use(ports, row))) return taken(ports, build, row);
  const started = await withSandboxAlone(ports, projectId, () => startSandbox(ports, build));
  return started!;
}

/** Writes down that it is being used; false when somebody has decided to stop it (S1). */
async function use(ports: Ports, { id, bootId, usedAt }: SandboxRow): Promise<boolean> {
  const now = ports.clock.now();
  if (now.getTime() - usedAt.getTime() < touchMs) return true;
  return (await ports.store.sandboxes.update({ id, bootId, state: "running" }, { usedAt: now })).length > 0;
}

/** Whether what runs is what the row tells of. */
async function isThere(ports: Ports, row: SandboxRow): Promise<boolean> {
  const found = await driverOf(ports, row).find(row.projectId);
  return found !== null && found.bootId === row.bootId;
}

const driverOf = (ports: Ports, { driver }: Pick<SandboxRow, "driver">): SandboxDriver => ports.driver(driver);

/** A sandbox that runs, as the build wants it: of another network, say, it is started anew. */
async function taken(ports: Ports, build: BuildRow, row: SandboxRow): Promise<SandboxEndpoint> {
  const endpoint = await ensured(ports, build, row);
  if (endpoint.bootId !== row.bootId) await recordBoot(ports, row, endpoint);
  const network = networkPolicyOf(build);
  if (row.network?.mode !== network.mode)
    await ports.store.sandboxes.update({ id: row.id, bootId: endpoint.bootId, state: "running" }, { network });
  return endpoint;
}

async function ensured(ports: Ports, build: BuildRow, row: SandboxRow): Promise<SandboxEndpoint> {
  const endpoint = await driverOf(ports, row).ensure({
    projectId: build.projectId,
    sandboxId: row.id,
    tenantId: build.tenantId,
    network: networkPolicyOf(build),
    limits: row.limits ?? ports.sandboxPolicy.limits,
  });
  // From wherever a build is driven its agents' calls of models are answered.
  ports.models.listen(endpoint.modelSocket, build.projectId);
  return watchedEndpoint(endpoint);
}

async function startSandbox(ports: Ports, build: BuildRow): Promise<SandboxEndpoint> {
  const { projectId, sandboxDriver: driver } = build;
  const present = await ports.store.sandboxes.find({ projectId, driver, state: presentStates });
  if (present?.state === "running") {
    const why = distrustOf(present.bootId);
    if (why !== null) await endDistrusted(ports, present, why);
    else if (await isThere(ports, present)) return taken(ports, build, present);
    else await noteLoss(ports, present, await whyGone(ports, present));
  }
  const row = await admitSandbox(ports, build);
  const endpoint = await ensured(ports, build, row).catch(async (error: unknown) => {
    const stopped = { state: "stopped", reason: `not started: ${messageOf(error)}` } as const;
    await ports.store.sandboxes.update({ id: row.id, state: "wanted" }, stopped);
    throw error;
  });
  await recordBoot(ports, row, endpoint);
  return endpoint;
}
