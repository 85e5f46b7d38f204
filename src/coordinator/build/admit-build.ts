import { promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/** Lets the build run if no other build of its project does. Returns whether to prepare it. */
export async function admitBuild(ports: Ports, buildId: string): Promise<boolean> {
  const { projectId } = await ports.store.builds.get({ id: buildId });
  await ports.store.transaction("admit-build", (transaction) => promoteNext(transaction, ports, projectId));
  return (await ports.store.builds.get({ id: buildId })).status === "running";
}
