import { promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/**
 * Lets the build run when no other build of its project does. True when it may go on to be
 * prepared.
 */
export async function admitBuild(ports: Ports, buildId: string): Promise<boolean> {
  const { projectId } = await ports.store.builds.get({ id: buildId });
  await ports.store.transaction("admit-build", (transaction) => promoteNext(transaction, ports, projectId));
  return (await ports.store.builds.get({ id: buildId })).status === "running";
}
