import { liveJobStatuses } from "../../domain/status.ts";
import type { JobRow, Tables } from "../port.ts";

type Jobs = Pick<Tables, "jobs">;
/** How a job ended: its final state, the moment, and why somebody ended it. */
type JobEnd = Pick<JobRow, "state"> & { endedAt: Date } & Partial<Pick<JobRow, "cancelReason">>;

const ended = (end: JobEnd) => ({ ...end, status: "ended", leaseOwner: null, leaseUntil: null }) as const;

/** Marks a recorded job as running. Null when it is past that. */
export const markJobRunning = async ({ jobs }: Jobs, key: string): Promise<JobRow | null> =>
  (await jobs.update({ key, status: "intended" }, { status: "running" }))[0] ?? null;

/** Ends a running job for the holder of its lease. Null when the fence is stale. */
export const endLeasedJob = async (
  { jobs }: Jobs,
  { key, fence }: Pick<JobRow, "key" | "fence">,
  end: JobEnd,
): Promise<JobRow | null> => (await jobs.update({ key, fence, status: "running" }, ended(end)))[0] ?? null;

/** Ends a job, even if another process watches it. */
export const endLiveJob = async ({ jobs }: Jobs, key: string, end: JobEnd): Promise<void> =>
  void (await jobs.update({ key, status: liveJobStatuses }, ended(end)));
