// All jobs of a volume, including those of earlier guests.
// JK1. One key is one job: operations on a key run one after another, and a key that has a record
// never starts again.
// JK2. When a guest starts, every job recorded as running is lost; its leftover processes are ended
// first.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { GuestFault } from "../faults.ts";
import { makeFolder } from "../files/make-folders.ts";
import { removeTree } from "../files/remove-tree.ts";
import { commandOwner, type GuestParts, ownerOf } from "../parts.ts";
import type { JobSpec, JobState } from "../protocol.ts";
import { createChanges } from "./changes.ts";
import { type GuestJob, outputPathOf, startGuestJob } from "./job.ts";
import { firstState, stateAfterGuestDeath } from "./ledger.ts";
import { outputSize } from "./output.ts";
import { jobId, loadRecords, saveRecord } from "./record.ts";
import { createTurns } from "./turns.ts";

export interface Jobs {
  /** Returns the job of this key, started now if there was none. */
  start(key: string, spec: JobSpec): Promise<GuestJob>;
  find(key: string): Promise<GuestJob | null>;
  list(): JobState[];
  /** Resolves once nothing of the job is left; an unknown key is recorded as cancelled. */
  cancel(key: string, options: { reason: string; graceMs: number }): Promise<GuestJob>;
  /** Removes an ended job's record and output. Fails with 409 while it runs. */
  forget(key: string): Promise<void>;
  activeCount(): number;
  /** When the last job ended, on the `performance.now()` clock in milliseconds; 0 when none has. */
  lastEndedAt(): number;
  /** Ends every job as lost and refuses new ones. */
  endAll(graceMs: number): Promise<void>;
}

/** Reads the records of earlier guests and settles the jobs they left. */
export async function openJobs(parts: GuestParts): Promise<Jobs> {
  const base = join(parts.volume.own, "jobs");
  await makeFolder(base, 0o700);
  const { jobs, damaged } = await takeOver(parts, base);
  return createJobs(parts, { base, jobs, damaged });
}

interface Known {
  readonly base: string;
  readonly jobs: Map<string, GuestJob>;
  /** The ids of unreadable records, whose keys must not start either. */
  readonly damaged: Set<string>;
}

function createJobs(parts: GuestParts, { base, jobs, damaged }: Known): Jobs {
  const { inTurn, allSettled } = createTurns();
  let isEnding = false;
  let lastEndedAt = 0;

  const { known, keep } = createRecorded(parts, { base, jobs, damaged });
  const begin = async (key: string, spec: JobSpec): Promise<GuestJob> => {
    if (isEnding) throw new GuestFault(503, "ending", "the guest is ending and starts no jobs");
    const id = jobId(key);
    const before = spec.after === undefined ? undefined : jobs.get(jobId(spec.after))?.ended;
    const job = await startGuestJob(parts, { folder: join(base, id), key, before }, spec);
    jobs.set(id, job);
    void job.ended.then(() => {
      lastEndedAt = performance.now();
    });
    // The guest may have begun to end while the job was being recorded.
    if (isEnding) job.lose(0);
    return job;
  };

  return {
    start: (key, spec) => inTurn(jobId(key), async () => (await known(key)) ?? begin(key, spec)),
    find: (key) => inTurn(jobId(key), () => known(key)),
    list: () => [...jobs.values()].map((job) => job.state()),
    cancel: async (key, { reason, graceMs }) => {
      const job = await inTurn(jobId(key), async () => {
        const existing = await known(key);
        if (existing !== null) return existing;
        return keep(key, cancelledState(key, parts.now(), reason));
      });
      job.cancel(reason, graceMs);
      await job.ended;
      return job;
    },
    forget: (key) =>
      inTurn(jobId(key), async () => {
        const id = jobId(key);
        const job = jobs.get(id);
        if (job !== undefined && isRunning(job)) throw new GuestFault(409, "running", `job ${key} is still running`);
        await removeTree(join(base, id));
        jobs.delete(id);
        damaged.delete(id);
      }),
    activeCount: () => [...jobs.values()].filter(isRunning).length,
    lastEndedAt: () => lastEndedAt,
    endAll: async (graceMs) => {
      isEnding = true;
      await allSettled();
      const running = [...jobs.values()].filter(isRunning);
      for (const job of running) job.lose(graceMs);
      await Promise.all(running.map((job) => job.ended));
    },
  };
}

/** The jobs that the guest has a record of, readable or not. */
function createRecorded(parts: GuestParts, { base, jobs, damaged }: Known) {
  const keep = async (key: string, state: JobState): Promise<GuestJob> => {
    const id = jobId(key);
    await saveRecord(join(base, id), state, true);
    const job = settledJob(join(base, id), state);
    jobs.set(id, job);
    damaged.delete(id);
    return job;
  };
  /** Finds a job; one with an unreadable record has ended with the guest before. */
  const known = async (key: string): Promise<GuestJob | null> => {
    const id = jobId(key);
    const job = jobs.get(id);
    if (job !== undefined || !damaged.has(id)) return job ?? null;
    const first = firstState(key, [], { now: parts.now(), labels: {} });
    return keep(key, stateAfterGuestDeath(first, parts.now(), await outputSize(outputPathOf(join(base, id)))));
  };
  return { known, keep };
}

/** The state of a job that was cancelled before it started. */
function cancelledState(key: string, now: ReturnType<GuestParts["now"]>, reason: string): JobState {
  const first = firstState(key, [], { now, labels: {} });
  return { ...first, status: "cancelled", endedAt: first.createdAt, cancelReason: reason };
}

const isRunning = (job: GuestJob): boolean => job.state().status === "running";

async function takeOver(parts: GuestParts, base: string): Promise<Pick<Known, "jobs" | "damaged">> {
  const jobs = new Map<string, GuestJob>();
  const damaged = new Set<string>();
  const records = await loadRecords(base);
  for (const id of await readdir(base)) {
    // A folder without a record belongs to a job that never started.
    if (!records.has(id)) await removeTree(join(base, id));
  }
  await parts.isolation.endLeftovers(ownerOf(parts.volume, commandOwner));
  for (const [id, recorded] of records) {
    if (recorded === null) damaged.add(id);
    else jobs.set(id, settledJob(join(base, id), await settleLost(parts, join(base, id), recorded)));
  }
  return { jobs, damaged };
}

async function settleLost(parts: GuestParts, folder: string, recorded: JobState): Promise<JobState> {
  if (recorded.status !== "running") return recorded;
  await parts.isolation.endLeftovers(ownerOf(parts.volume, recorded.key));
  const lost = stateAfterGuestDeath(recorded, parts.now(), await outputSize(outputPathOf(folder)));
  // On a full disk the record keeps saying "running", and the next guest reaches the same result.
  await saveRecord(folder, lost, true).catch(() => undefined);
  return lost;
}

/** Returns a job that has ended: one of an earlier guest, or one that never started. */
function settledJob(folder: string, state: JobState): GuestJob {
  return {
    state: () => state,
    changes: createChanges(),
    outputPath: outputPathOf(folder),
    input: null,
    ended: Promise.resolve(),
    cancel: () => undefined,
    lose: () => undefined,
  };
}
