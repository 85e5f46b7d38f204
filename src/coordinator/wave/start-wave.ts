import type { BuildRow } from "../../store/port.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/** Opens the requested wave if it is still next, and dispatches tasks as far as capacity allows. */
export async function startWave(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  await ports.store.transaction("start-wave", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (!isReady(build)) return;
    await advance(transaction, ports, buildId, { openWave: waveNumber });
  });
}

const isReady = (build: BuildRow): boolean => build.status === "running" && build.headSha !== null;
