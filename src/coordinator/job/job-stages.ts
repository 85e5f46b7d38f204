import { liveJobStatuses } from "../../domain/status.ts";
import type { JobSpec, JobState, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { JobRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { requireVolumeRoom } from "../sandboxes/volume-limit.ts";

export const mebibyte = 1024 * 1024;

export const shell = (script: string): string[] => ["sh", "-e", "-c", script];

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
 * Records the intent, starts the job, records that it runs. Doing it again starts nothing twice:
 * false when the job is over already, and whoever was slower has to clear away what he made for it.
 * Fails with `capacity` when the sandbox's volume is above its limit.
 */
export async function startJob(ports: Ports, endpoint: SandboxEndpoint, request: StartJobRequest): Promise<boolean> {
  const { key, build, owner, spec } = request;
  // A preview has a volume of its own.
  if (owner.kind !== "preview") await requireVolumeRoom(ports, build.projectId, key);
  const isNew = await ports.store.jobs.insertIfAbsent({
    key,
    buildId: build.id,
    projectId: build.projectId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    ownerFence: owner.fence,
    status: "intended",
    createdAt: ports.clock.now(),
  });
  if (isNew === null && (await isOver(ports, key))) return false;
  await endpoint.guest.startJob(key, { ...spec, labels: { ...spec.labels, machine: ports.machine.boot() } });
  const [running] = await ports.store.jobs.update({ key, status: "intended" }, { status: "running" });
  ports.wakeWatcher();
  if (running !== undefined || !(await isOver(ports, key))) return true;
  // It ended, was judged and forgotten, all since we looked: what we started is another one.
  await endpoint.guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  return false;
}

/** A guest that has never seen a running job's key lost its volume. */
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
 * Whether the machine was started anew since the job began. Files on the volume wait for no disk:
 * what it wrote may be empty after a power cut, though its end is on record.
 */
export const isOfEarlierBoot = (ports: Ports, { labels }: JobState): boolean =>
  (labels.machine ?? ports.machine.boot()) !== ports.machine.boot();

/**
 * Ends a job whose end nobody will judge, so that nothing of it is left. False when there never was
 * one.
 */
export async function dropJob(ports: Ports, { guest }: SandboxEndpoint, key: string): Promise<boolean> {
  const job = await ports.store.jobs.find({ key });
  if (job === null || job.status === "ended") return job !== null;
  const state = await guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  const ended = { status: "ended", state, endedAt: ports.clock.now(), leaseOwner: null, leaseUntil: null } as const;
  await ports.store.jobs.update({ key, status: liveJobStatuses }, ended);
  return true;
}
