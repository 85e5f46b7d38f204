import { type Activity, maxActivities } from "../../domain/events/activity.ts";
import type { BuildRow, Input, JobRow, StoreTransaction } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";

// Agents' reports as events, for people and programs that watch.
//
// RA1. A report becomes an event in the transaction that stores the output it is in, so none is
// missed and none comes twice.
// RA2. A job has at most `maxActivities` of them, whatever it prints; its log has the rest.

type ReportingJob = Input<Pick<JobRow, "key" | "ownerKind" | "ownerId">>;

/** Returns the reports that still become events after this many of the same job. */
export function reportable(activities: readonly Activity[], reported: number): readonly Activity[] {
  const room = maxActivities - reported;
  if (activities.length <= room) return activities;
  const last: Activity = { kind: "notice", text: "The rest of its activity is in its log only." };
  return room <= 0 ? [] : [...activities.slice(0, room - 1), last];
}

/** Writes the reports of an agent's job; `reported` is how many it had before. */
export async function reportActivities(
  transaction: StoreTransaction,
  build: BuildRow,
  job: ReportingJob,
  { activities, reported }: { activities: readonly Activity[]; reported: number },
): Promise<void> {
  if (activities.length === 0) return;
  const about = await findSubject(transaction, job);
  if (about === null) return;
  const events = eventsOf(transaction, build);
  for (const [at, activity] of activities.entries()) {
    await events.activity(job.key, reported + at + 1, { ...about, activity });
  }
}

/** Returns the agent that reports; null for a job without an agent, such as a preview. */
async function findSubject(transaction: StoreTransaction, { ownerKind, ownerId }: ReportingJob) {
  if (ownerKind === "attempt") {
    const { attempt, wave, task } = await transaction.attemptInContext(ownerId);
    return { waveNumber: wave.number, role: attempt.role, taskKey: task?.key ?? null };
  }
  if (ownerKind !== "gate") return null;
  const run = await transaction.gateRuns.get({ id: ownerId });
  const { number } = await transaction.waves.get({ id: run.waveId });
  return { waveNumber: number, role: run.evidence?.added?.role ?? "critic", taskKey: null };
}
