import { present } from "../../domain/known.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { askGenerate } from "../attempt/head-attempt.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

export async function reopenTasks(transaction: StoreTransaction, buildId: string): Promise<void> {
  for (const task of await transaction.tasks.list({ buildId, status: ["failed", "skipped", "cancelled"] })) {
    // Kept work that only waited for its join needs no new attempt, but its wave must join it
    // again.
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
    await eventsOf(transaction, build).wavePassed({ ...wave, epoch }, present(wave.headSha, "wave.headSha"));
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

/** Whether a rollback undid the wave, so that its tasks run again in a new one. */
async function wasTakenBack(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<boolean> {
  if (wave.baseSha !== build.headSha) return true;
  return wave.headSha !== null && (await transaction.tasks.find({ waveId: wave.id, status: "completed" })) === null;
}

/**
 * Continues from the wave's head: regenerates missing generated files, then runs its gates (W8).
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
  if (status === "joining")
    await askGenerate(
      transaction,
      ports,
      { build, wave, baseSha: present(headSha, "headSha") },
      present(generate, "generate").paths,
    );
}
