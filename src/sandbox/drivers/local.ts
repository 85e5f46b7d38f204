// The drivers `local` (bubblewrap) and `local-unsafe`: the guest is a process of this machine that outlives us.
//
// L1. One guest per project: it is started and stopped under the project's lock, which dies with its holder.
// L2. The record says `starting` before a process is made (W9). Whoever finds that after a crash ends what it left and
//     starts anew: nobody had been given the sandbox yet, so nothing is lost.
// L3. Stopped means that no process has the sandbox's mark. In bubblewrap that includes the first process of its pid
//     namespace, which the kernel lets end only after everything in it, the jobs' own namespaces included.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { guestProtocolVersion } from "../../guest/protocol.ts";
import { guestProgram } from "../guest-program.ts";
import type { SandboxDriver, SandboxEndpoint, SandboxInfo, SandboxSpec } from "../port.ts";
import { checkLocal } from "./local/check.ts";
import { findAnswering, findRunning, type Running, start, stop } from "./local/guest-process.ts";
import { type LocalDriverOptions, placesOf } from "./local/launch.ts";
import { withLock } from "./local/lock.ts";
import { machineBootId } from "./local/processes.ts";
import { isRunning, listRecords, readRecord, type SandboxRecord } from "./local/record.ts";
import { diskBytes, removeFolder } from "./local/volume.ts";

export type { LocalDriverOptions } from "./local/launch.ts";

const lockWaitMs = 120_000;

/**
 * The driver `local` and, with `unsafe`, `local-unsafe`. Volumes lie in `<dataDir>/volumes/<projectId>`, records and
 * sockets in `<dataDir>/sandboxes/<projectId>`. `program` finds the guest's program, given a folder for what it makes.
 */
export function createLocalDriver(given: LocalDriverOptions, program = guestProgram): SandboxDriver {
  const options = (): LocalDriverOptions => ({ ...given, dataDir: madeFolder(given.dataDir) });
  // From sources it is bundled anew at each call; once is enough.
  let found: Promise<Program> | null = null;
  const programOnce = () => {
    found ??= program(join(options().dataDir, "cache")).then(identified);
    return found;
  };
  return {
    name: driverName(given),
    check: () => checkLocal(options()),
    ensure: async (spec) => ensure(options(), spec, await programOnce()),
    find: async (projectId) => {
      const running = await findRunning(options(), placesOf(options().dataDir, projectId));
      // Another driver's sandbox may isolate less than the caller of this one relies on.
      return running === null || running.record.driver !== driverName(given) ? null : endpointOf(running);
    },
    list: () => list(options()),
    stop: (projectId) => stopped(options(), projectId, async () => undefined),
    remove: (projectId, { volume }) =>
      stopped(options(), projectId, async () => {
        const places = placesOf(options().dataDir, projectId);
        if (volume) await removeFolder(places.volume);
        await removeFolder(places.run);
      }),
  };
}

const driverName = ({ unsafe }: LocalDriverOptions) => (unsafe ? "local-unsafe" : "local");

function madeFolder(dataDir: string): string {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return realpathSync(resolve(dataDir));
}

interface Program {
  readonly path: string;
  /** Tells whether a running guest is of the same program. */
  readonly hash: string;
}

function identified(path: string): Program {
  return { path, hash: createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 16) };
}

async function ensure(options: LocalDriverOptions, spec: SandboxSpec, program: Program): Promise<SandboxEndpoint> {
  const places = placesOf(options.dataDir, spec.projectId);
  const wanted = wantedRecord(options, spec, program);
  const found = findAnswering(options, places) ?? (await findRunning(options, places));
  if (found !== null && differences(found.record, wanted).length === 0) return endpointOf(found);
  return withLock(places.lock, lockWaitMs, async () => {
    const running = await findRunning(options, places);
    if (running !== null) {
      const differing = differences(running.record, wanted);
      if (differing.length === 0) return endpointOf(running);
      if (running.health.activeJobs > 0) throw inUse(running, differing);
    }
    await stop(options, places, running?.record ?? ours(options, readRecord(places.run)) ?? wanted);
    return endpointOf(await start(options, places, wanted, program.path));
  });
}

function wantedRecord(options: LocalDriverOptions, spec: SandboxSpec, program: Program): SandboxRecord {
  return {
    state: "starting",
    driver: driverName(options),
    installationId: options.installationId,
    projectId: spec.projectId,
    sandboxId: spec.sandboxId,
    network: spec.network,
    protocol: guestProtocolVersion,
    program: program.hash,
    pid: null,
    pidStart: null,
    temporary: null,
    machineBoot: machineBootId(),
    bootId: null,
    startedAt: null,
  };
}

/** In what the running sandbox is not the one that is wanted, in words. */
function differences(running: SandboxRecord, wanted: SandboxRecord): string[] {
  const compared = ["driver", "network", "protocol", "program"] as const;
  return compared
    .filter((key) => running[key] !== wanted[key])
    .map((key) => `${key} ${running[key]} instead of ${wanted[key]}`);
}

function inUse({ record, health }: Running, differing: readonly string[]): WavesmithError {
  const what = `the sandbox of ${record.projectId} runs with ${differing.join(" and ")}`;
  return new WavesmithError("conflict", `${what}, and ${health.activeJobs} of its jobs are active`, {
    retryable: true,
    remedy: "wait for its jobs to end or cancel them, then try again",
  });
}

function endpointOf({ record, guest, health }: Running): SandboxEndpoint {
  const workspaceRoot = health.workspaceRoot.replace(/\/+$/, "");
  return { sandboxId: record.sandboxId, guest, workspaceRoot, bootId: health.bootId };
}

function ours(options: LocalDriverOptions, record: SandboxRecord | null): SandboxRecord | null {
  return record?.installationId === options.installationId ? record : null;
}

async function stopped(options: LocalDriverOptions, projectId: ProjectId, then: () => Promise<void>): Promise<void> {
  const places = placesOf(options.dataDir, projectId);
  if (!existsSync(places.run) && !existsSync(places.volume)) return;
  await withLock(places.lock, lockWaitMs, async () => {
    const record = ours(options, readRecord(places.run));
    if (record !== null) await stop(options, places, record);
    await then();
  });
}

async function list(options: LocalDriverOptions): Promise<SandboxInfo[]> {
  const records = listRecords(join(options.dataDir, "sandboxes"));
  const recorded = new Set<string>(records.map(({ projectId }) => projectId));
  const left = volumesOf(options).filter((projectId) => !recorded.has(projectId));
  const infos = records.filter((record) => ours(options, record) !== null).map((record) => infoOf(options, record));
  return Promise.all([...infos, ...left.map((projectId) => leftOf(options, projectId))]);
}

function volumesOf({ dataDir }: LocalDriverOptions): ProjectId[] {
  const volumes = join(dataDir, "volumes");
  if (!existsSync(volumes)) return [];
  const entries = readdirSync(volumes, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && /^[\w-]+$/.test(entry.name))
    .map(({ name }) => name as ProjectId);
}

/** The volume of a sandbox that was removed without it. */
async function leftOf(options: LocalDriverOptions, projectId: ProjectId): Promise<SandboxInfo> {
  const { volume } = placesOf(options.dataDir, projectId);
  return {
    projectId,
    sandboxId: null,
    state: "removed",
    startedAt: null,
    volumePath: volume,
    diskBytes: await diskBytes(volume),
  };
}

async function infoOf(options: LocalDriverOptions, record: SandboxRecord): Promise<SandboxInfo> {
  const { volume } = placesOf(options.dataDir, record.projectId);
  const running = isRunning(record);
  return {
    projectId: record.projectId,
    sandboxId: record.sandboxId,
    state: running ? "running" : "stopped",
    startedAt: running ? record.startedAt : null,
    volumePath: existsSync(volume) ? volume : null,
    diskBytes: existsSync(volume) ? await diskBytes(volume) : null,
  };
}
