import type { ProjectId, SandboxId } from "../domain/ids.ts";
import type { SandboxEndpoint } from "../sandbox/port.ts";
import type { BuildRow, SandboxRow } from "../store/port.ts";
import { emitFor } from "./advance.ts";
import type { Ports } from "./port.ts";

/** The running sandbox of a build's project, started or made if need be; its birth and returns are events. */
export async function ensureSandbox(ports: Ports, build: BuildRow): Promise<SandboxEndpoint> {
  const row = await intendSandbox(ports, build);
  const endpoint = await ports.driver(build.sandboxDriver).ensure({
    projectId: build.projectId as ProjectId,
    sandboxId: row.id as SandboxId,
    network: build.network,
  });
  if (row.state !== "running" || row.bootId !== endpoint.bootId) await recordBoot(ports, build, row, endpoint);
  return endpoint;
}

/** Intent before anything is made (W9). */
async function intendSandbox(ports: Ports, build: BuildRow): Promise<SandboxRow> {
  const live = { projectId: build.projectId, state: ["wanted", "running", "stopped"] as const };
  // Every step of every task asks: the lock is only for whoever has to write.
  const known = await ports.store.sandboxes.find(live);
  if (known !== null && known.driver === build.sandboxDriver) return known;
  return ports.store.transaction("sandbox-intend", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.sandboxes.find(live);
    if (present !== null && present.driver === build.sandboxDriver) return present;
    if (present !== null)
      await transaction.sandboxes.update({ id: present.id }, { state: "removed", removedAt: ports.clock.now() });
    const row = await transaction.sandboxes.insert({
      id: ports.ids("sandbox"),
      projectId: build.projectId,
      driver: build.sandboxDriver,
      state: "wanted",
    });
    await emitFor(transaction, build, "sandbox/created", row.id, 0, { sandboxId: row.id, driver: row.driver });
    return row;
  });
}

async function recordBoot(ports: Ports, build: BuildRow, row: SandboxRow, endpoint: SandboxEndpoint): Promise<void> {
  await ports.store.transaction("sandbox-boot", async (transaction) => {
    await transaction.sandboxes.update(
      { id: row.id },
      { state: "running", bootId: endpoint.bootId, usedAt: ports.clock.now() },
    );
    await emitFor(transaction, build, "sandbox/started", `${row.id}/${endpoint.bootId}`, 0, {
      sandboxId: row.id,
      driver: row.driver,
    });
  });
}
