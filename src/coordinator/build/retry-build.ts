import { WavesmithError } from "../../domain/errors.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { previewIsDue } from "../gate/gate-due.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { reopenTasks, reopenWave } from "../wave/reopen-wave.ts";
import { personsHead } from "../wave/wave-head.ts";
import { deadlineFrom } from "./deadline.ts";

// `retry` reopens a blocked or cancelled wave, or puts failed tasks into the next one. Epochs are
// raised, because a repeated event id would be dropped (W13).

/**
 * Makes an ended build run again; new attempts for what failed. Fails with `conflict` when there is
 * nothing to do again.
 */
export async function retryBuild(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status === "completed")
    throw new WavesmithError("conflict", `build ${buildId} is completed: there is nothing to do again`);
  if (build.status !== "failed" && build.status !== "cancelled") {
    throw new WavesmithError("conflict", `build ${buildId} is ${build.status}, not ended`, {
      remedy: `wavesmith resume ${buildId}`,
    });
  }
  const wave = await ports.store.waves.find({ buildId }, { by: "number", descending: true });
  const head = wave === null ? null : await personsHead(ports, build, wave);
  await ports.store.transaction("retry-build", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    if (present.status !== build.status) return;
    const other = await transaction.builds.find({
      projectId: build.projectId,
      status: activeBuildStatuses,
    });
    if (other !== null) throw busy(buildId, other.id);
    const [running] = await transaction.builds.update(
      { id: buildId },
      {
        status: "running",
        reason: null,
        endedAt: null,
        epoch: present.epoch + 1,
        deadlineAt: deadlineFrom(build.plan, ports.clock.now()),
      },
    );
    await reopenTasks(transaction, buildId);
    if (wave !== null) await reopenWave(transaction, ports, running!, wave, head);
    if (wave !== null) await askPreview(transaction, running!, wave);
    await advance(transaction, ports, buildId);
  });
}

/**
 * A wave that was delivered while its build was being cancelled has no preview: nothing was to be
 * started then.
 */
async function askPreview(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<void> {
  if (wave.status !== "passed" || wave.deliveredAt === null) return;
  if (!previewIsDue(build, await transaction.tasks.list({ buildId: build.id }, { by: "position" }))) return;
  const present = await transaction.previews.find({ buildId: build.id });
  if (present !== null && present.waveNumber >= wave.number) return;
  const facts = { waveNumber: wave.number, sha: wave.headSha! };
  await emitFor(transaction, build, "agent/preview.deploy", `${build.id}/${wave.number}`, build.epoch, facts);
}

const busy = (buildId: string, other: string): WavesmithError =>
  new WavesmithError("conflict", `build ${buildId} cannot run: build ${other} of the same project is not over`, {
    remedy: `wavesmith resume ${other}, or: wavesmith cancel ${other}`,
  });
