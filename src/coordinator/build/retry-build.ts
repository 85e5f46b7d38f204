import { WavesmithError } from "../../domain/errors.ts";
import type { Plan } from "../../domain/plan.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { previewIsDue } from "../gate/start-gate.ts";
import { waveRef } from "../names.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { askGenerate } from "../wave/join-wave.ts";

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

/** When the plan's wall-clock budget, counted anew, is used up. */
export function deadlineFrom(plan: Plan, now: Date): Date | null {
  const { wallClockMs } = plan.limits.budget;
  return wallClockMs === null ? null : new Date(now.getTime() + wallClockMs);
}

const busy = (buildId: string, other: string): WavesmithError =>
  new WavesmithError("conflict", `build ${buildId} cannot run: build ${other} of the same project is not over`, {
    remedy: `wavesmith resume ${other}, or: wavesmith cancel ${other}`,
  });

/**
 * Commits a person put on the wave's branch count, when they descend from its head and it is not
 * delivered.
 */
export async function personsHead(ports: Ports, build: BuildRow, wave: WaveRow): Promise<string | null> {
  if (wave.headSha === null) return null;
  const projectId = build.projectId;
  const branch = await ports.workspace.resolve(projectId, waveRef(build.id, wave.number));
  if (branch === null || branch === wave.headSha) return wave.headSha;
  if (wave.status === "passed" && wave.deliveredAt !== null) {
    const what = `wavesmith/${build.id}/wave-${wave.number} was moved to ${branch.slice(0, 12)} after its wave was delivered`;
    ports.log.warn(`${what}: that is not taken in. Merge it into main once the build is over`);
    return wave.headSha;
  }
  if (await ports.workspace.isAncestor(projectId, wave.headSha, branch)) return branch;
  throw new WavesmithError(
    "conflict",
    `the branch wavesmith/${build.id}/wave-${wave.number} is at ${branch.slice(0, 12)}, which does not descend from the wave's head ${wave.headSha.slice(0, 12)}`,
    {
      remedy: `put it back: git -C ${ports.workspace.repositoryPath(projectId)} update-ref ${waveRef(build.id, wave.number)} ${wave.headSha}`,
    },
  );
}

export async function reopenTasks(transaction: StoreTransaction, buildId: string): Promise<void> {
  for (const task of await transaction.tasks.list({ buildId, status: ["failed", "skipped", "cancelled"] })) {
    // Work that was kept and only waited to be joined needs no new attempt, but its wave has to
    // take it in again.
    await transaction.tasks.update(
      { id: task.id },
      { status: "pending", epoch: task.epoch + 1, retriesUsed: 0, losses: 0, endedAt: null },
    );
  }
}

export async function reopenWave(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  wave: WaveRow,
  head: string | null,
): Promise<void> {
  const epoch = wave.epoch + 1;
  const undelivered = wave.status === "passed" && wave.deliveredAt === null;
  if (undelivered && head === wave.headSha) {
    await transaction.waves.update({ id: wave.id }, { epoch });
    await emitFor(transaction, build, "project/wave.passed", wave.id, epoch, {
      waveNumber: wave.number,
      sha: wave.headSha!,
    });
    return;
  }
  if (!undelivered && !["blocked", "cancelled", "waiting"].includes(wave.status)) return;
  if (wave.status === "cancelled" && (await wasTakenBack(transaction, build, wave))) return;
  const members = await transaction.waveTasks.list({ waveId: wave.id });
  const ids = members.map((member) => member.taskId);
  if (head !== null) {
    await reopenHead(transaction, ports, build, { ...wave, headSha: head, epoch });
    return;
  }
  const kept = await transaction.tasks.list({ id: ids, status: "pending" });
  for (const task of kept) {
    const done = { taskId: task.id, waveId: wave.id, outcome: "succeeded", commitSha: task.commitSha } as const;
    const joinable = (await transaction.attempts.find(done)) !== null;
    await transaction.tasks.update({ id: task.id }, { status: joinable ? "joining" : "assigned", waveId: wave.id });
  }
  await transaction.waves.update({ id: wave.id }, { status: "running", epoch, reason: null, endedAt: null });
}

/** A rollback closed it: its tasks run again in a new wave. */
async function wasTakenBack(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<boolean> {
  if (wave.baseSha !== build.headSha) return true;
  return wave.headSha !== null && (await transaction.tasks.find({ waveId: wave.id, status: "completed" })) === null;
}

/**
 * Goes on from the wave's head: to its gates, or first to the generated files that were not made
 * again (W8).
 */
async function reopenHead(transaction: StoreTransaction, ports: Ports, build: BuildRow, wave: WaveRow): Promise<void> {
  const by = { by: "createdAt", descending: true } as const;
  const generate = await transaction.attempts.find({ waveId: wave.id, kind: "generate" }, by);
  const status = generate === null || generate.outcome === "succeeded" ? "gating" : "joining";
  const { headSha, epoch } = wave;
  await transaction.waves.update(
    { id: wave.id },
    { status, headSha, epoch, fixRounds: 0, reason: null, passedAt: null, endedAt: null },
  );
  if (status === "joining") await askGenerate(transaction, ports, { build, wave, baseSha: headSha! }, generate!.paths);
}

/**
 * Lets a build go on that waits for nobody's decision: one that was rolled back. False, and nothing
 * done, for any other.
 */
export async function resumeWaiting(ports: Ports, buildId: string): Promise<boolean> {
  return ports.store.transaction("resume-waiting", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.find({ buildId }, { by: "number", descending: true });
    if (build.status !== "waiting" || wave?.status === "waiting") return false;
    await transaction.builds.update({ id: buildId }, { status: "running", reason: null });
    await advance(transaction, ports, buildId);
    return true;
  });
}
