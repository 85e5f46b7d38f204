import type { JobSpec, JobState, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import { requireVolumeRoom } from "../../sandbox-lifecycle/volume-limit.ts";
import type { JobRow } from "../../store/port.ts";
import { endLiveJob, markJobRunning } from "../../store/queries/jobs.ts";
import type { Ports } from "../port.ts";

export const mebibyte = 1024 * 1024;

export const shellArgv = (script: string): string[] => ["sh", "-e", "-c", script];

interface StageOptions {
  readonly name: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly timeoutMs: number;
  readonly continueOnFailure?: boolean;
}

export function stage(options: StageOptions): StageSpec {
  return { stdin: null, outputLimitBytes: 8 * mebibyte, ...options };
}

export interface StartJobRequest {
  readonly key: string;
  readonly build: { readonly id: string; readonly projectId: string };
  readonly owner: { readonly kind: JobRow["ownerKind"]; readonly id: string; readonly fence: number };
  readonly spec: JobSpec;
}

/**
 * Records the intent, starts the job, and records that it runs. A repeated call starts nothing
 * twice. Returns false if the job is already over; the caller then removes the files it made for
 * it. Fails with `capacity` when the sandbox's volume is above its limit.
 */
export async function startJob(ports: Ports, endpoint: SandboxEndpoint, request: StartJobRequest): Promise<boolean> {
  const { key, build, owner, spec } = request;
  // A preview has its own volume.
  if (owner.kind !== "preview") await requireVolumeRoom(ports, build.projectId, key);
  const isNew = await ports.store.jobs.insertIfAbsent({
    key,
    buildId: build.id,
    projectId: build.projectId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    ownerFence: owner.fence,
    status: "intended",
    longestMs: owner.kind === "preview" ? null : await longestOf(ports, spec),
    createdAt: ports.clock.now(),
  });
  if (isNew === null && (await isOver(ports, key))) return false;
  await endpoint.guest.startJob(key, { ...spec, labels: { ...spec.labels, machine: ports.machine.boot() } });
  const running = await markJobRunning(ports.store, key);
  ports.wakeWatcher();
  if (running !== null || !(await isOver(ports, key))) return true;
  // The job ended, was judged and forgotten since we checked, so we have just started a second one.
  await endpoint.guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  return false;
}

/** How long the guest may take on a busy machine to start a stage, end it and clean up. */
const stageGraceMs = 30_000;
const jobGraceMs = 120_000;

/** Returns the longest that a job can take when its guest keeps the time limits of its stages. */
async function longestOf({ store }: Ports, { stages, after }: JobSpec): Promise<number> {
  const before = after === undefined ? null : await store.jobs.find({ key: after });
  const limits = stages.map(({ timeoutMs }) => timeoutMs + stageGraceMs);
  return limits.reduce((sum, limitMs) => sum + limitMs, jobGraceMs + (before?.longestMs ?? 0));
}

/** The state of a running job that its guest does not know, because the volume was lost. */
export const lostState = (key: string): JobState => ({
  key,
  status: "lost",
  revision: 0,
  stages: [],
  createdAt: new Date(0).toISOString(),
  endedAt: null,
  cancelReason: null,
  outputBytes: 0,
  labels: {},
});

const isOver = async ({ store }: Ports, key: string): Promise<boolean> =>
  (await store.jobs.get({ key })).status === "ended";

/**
 * Whether the machine rebooted since the job started. The volume is not flushed, so after a power
 * cut the job's files may be empty even though its end is recorded.
 */
export const isOfEarlierBoot = (ports: Ports, { labels }: JobState): boolean =>
  (labels.machine ?? ports.machine.boot()) !== ports.machine.boot();

/** Ends a job that nobody will judge, with everything it left. Returns false if there was none. */
export async function dropJob(ports: Ports, { guest }: SandboxEndpoint, key: string): Promise<boolean> {
  const job = await ports.store.jobs.find({ key });
  if (job === null || job.status === "ended") return job !== null;
  const state = await guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  await endLiveJob(ports.store, key, { state, endedAt: ports.clock.now() });
  return true;
}
