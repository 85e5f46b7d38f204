import type { ProjectId } from "../domain/ids.ts";
import type { SandboxRow } from "../store/port.ts";
import { emitFor } from "./advance.ts";
import type { Ports } from "./port.ts";

/** Stops a project's sandbox and keeps its volume. Safe to call twice. */
export async function stopSandbox(ports: Ports, sandbox: SandboxRow): Promise<void> {
  await ports.driver(sandbox.driver).stop(sandbox.projectId as ProjectId);
  await ports.store.transaction("sandbox-stop", async (transaction) => {
    const { id, bootId, driver, projectId } = sandbox;
    const [stopped] = await transaction.sandboxes.update({ id, state: "running", bootId }, { state: "stopped" });
    if (stopped === undefined) return; // it has been started again meanwhile, or was stopped before
    const build = await transaction.builds.find({ projectId }, { by: "position", descending: true });
    if (build === null) return;
    await emitFor(transaction, build, "sandbox/stopped", `${id}/${bootId}`, 0, { sandboxId: id, driver });
  });
}

/** Removes a project's sandbox, and with `volume` what is on it. The repository outside stays. Safe to call twice. */
export async function removeSandbox(ports: Ports, sandbox: SandboxRow, options: { volume: boolean }): Promise<void> {
  await ports.driver(sandbox.driver).remove(sandbox.projectId as ProjectId, options);
  const removed = { state: "removed" as const, removedAt: ports.clock.now() };
  await ports.store.sandboxes.update({ id: sandbox.id, state: ["wanted", "running", "stopped"] }, removed);
}
