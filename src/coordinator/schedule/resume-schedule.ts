import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { nextCronTime } from "../../plan/standing/cron-times.ts";
import type { ScheduleRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

type SchedulePorts = Pick<Ports, "store" | "clock">;

/** Resumes a paused schedule from its next time on, and resets its failures. */
export async function resumeSchedule({ store, clock }: SchedulePorts, id: string): Promise<ScheduleRow> {
  const row = await getSchedule({ store }, id);
  if (row.status === "active") return row;
  const nextAt = present(nextCronTime(row, clock.now()), "the next time of a checked cron");
  await store.schedules.update({ id: row.id }, { status: "active", failures: 0, note: null, nextAt });
  return store.schedules.get({ id: row.id });
}

/** Pauses a schedule until somebody resumes it. */
export async function pauseSchedule({ store }: Pick<Ports, "store">, id: string): Promise<ScheduleRow> {
  const row = await getSchedule({ store }, id);
  await store.schedules.update({ id: row.id, status: "active" }, { status: "paused", note: "a person paused it" });
  return store.schedules.get({ id: row.id });
}

/**
 * Removes a schedule that a person added. Fails with `conflict` for one from a repository's file.
 */
export async function removeSchedule({ store }: Pick<Ports, "store">, id: string): Promise<void> {
  const row = await getSchedule({ store }, id);
  if (row.origin === "main") {
    throw new WavesmithError("conflict", `the schedule ${row.id} is in wavesmith.yaml of its repository`, {
      remedy: `take it out there, or pause it: wavesmith schedules pause ${row.id}`,
    });
  }
  await store.schedules.remove({ id: row.id });
}

async function getSchedule({ store }: Pick<Ports, "store">, id: string): Promise<ScheduleRow> {
  const row = await store.schedules.find({ id });
  if (row !== null) return row;
  throw new WavesmithError("not-found", `there is no schedule ${id}`, { remedy: "wavesmith schedules lists them" });
}
