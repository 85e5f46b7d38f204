import { WavesmithError } from "../../domain/errors.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

// A person's word on a wave: after the gates and before `passed`. A decision is a row about one
// head.

export interface Decision {
  readonly by: string | null;
  /**
   * What an event is about: one about another wave or another head came late, and changes nothing.
   */
  readonly about?: { readonly waveNumber: number; readonly sha: string | null };
}

/**
 * Lets the waiting wave pass. Saying it again changes nothing. Fails with `conflict` when nothing
 * waits.
 */
export async function approveWave(ports: Ports, buildId: string, decision: Decision): Promise<void> {
  const { by } = decision;
  await decide(ports, buildId, { ...decision, is: "approved" }, async (transaction, build, wave) => {
    await transaction.approvals.insert({ ...row(ports, wave), decision: "approved", by });
    await transaction.waves.update({ id: wave.id }, { status: "gating", approvedSha: wave.headSha });
    await transaction.builds.update({ id: buildId }, { status: "running" });
    await emitFor(transaction, build, "project/wave.approved", `${wave.id}/${wave.headSha}`, wave.epoch, {
      waveNumber: wave.number,
      sha: wave.headSha!,
      ...(by === null ? {} : { by }),
    });
  });
}

/**
 * Blocks the waiting wave; `reason` is what a retry gives to the fixer. Saying it again changes
 * nothing.
 */
export async function rejectWave(
  ports: Ports,
  buildId: string,
  decision: Decision & { reason: string },
): Promise<void> {
  const { by, reason } = decision;
  await decide(ports, buildId, { ...decision, is: "rejected" }, async (transaction, build, wave) => {
    await transaction.approvals.insert({ ...row(ports, wave), decision: "rejected", by, reason });
    await transaction.waves.update(
      { id: wave.id },
      { status: "blocked", rejectedSha: wave.headSha, reason: `rejected: ${reason}`, endedAt: ports.clock.now() },
    );
    await transaction.builds.update({ id: buildId }, { status: "running" });
    await emitFor(transaction, build, "project/wave.rejected", `${wave.id}/${wave.headSha}`, wave.epoch, {
      waveNumber: wave.number,
      sha: wave.headSha!,
      reason,
      ...(by === null ? {} : { by }),
    });
  });
}

const row = (ports: Ports, wave: WaveRow) => ({
  id: ports.ids("approval"),
  buildId: wave.buildId,
  waveId: wave.id,
  sha: wave.headSha!,
  createdAt: ports.clock.now(),
});

const isAbout = (wave: WaveRow | null, about: NonNullable<Decision["about"]>): boolean =>
  wave !== null && wave.number === about.waveNumber && (about.sha === null || about.sha === wave.headSha);

async function decide(
  ports: Ports,
  buildId: string,
  decision: Decision & { is: "approved" | "rejected" },
  write: (transaction: StoreTransaction, build: BuildRow, wave: WaveRow) => Promise<void>,
): Promise<void> {
  await ports.store.transaction(`wave-${decision.is}`, async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.find({ buildId }, { by: "number", descending: true });
    const { about } = decision;
    if (about !== undefined && !isAbout(wave, about)) return;
    if (wave?.status === "waiting" && build.status === "waiting") {
      await write(transaction, build, wave);
      await advance(transaction, ports, buildId);
      return;
    }
    const said = decision.is === "approved" ? wave?.approvedSha : wave?.rejectedSha;
    if (wave !== null && wave.headSha !== null && said === wave.headSha) return;
    throw build.status === "waiting"
      ? new WavesmithError("conflict", `build ${buildId} is waiting to be resumed, not for a decision`, {
          remedy: `wavesmith resume ${buildId}`,
        })
      : new WavesmithError("conflict", `build ${buildId} is ${build.status}: no wave of it waits for a decision`, {
          remedy: `wavesmith status ${buildId}`,
        });
  });
}
