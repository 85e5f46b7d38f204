import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

/** Blocks a wave: nothing more is tried without a person. */
export async function blockWave(
  transaction: StoreTransaction,
  ports: Ports,
  { build, wave }: { build: BuildRow; wave: WaveRow },
  reason: string,
): Promise<void> {
  await transaction.waves.update({ id: wave.id }, { status: "blocked", reason, endedAt: ports.clock.now() });
  await eventsOf(transaction, build).waveBlocked(wave, reason);
}
