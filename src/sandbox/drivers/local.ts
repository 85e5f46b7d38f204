// The drivers `local` (bubblewrap) and `local-unsafe`: the guest is a process of this machine that
// outlives us.
//
// LD1. There is one guest per project. It starts and stops under the project's lock, which dies
// with its holder.
// LD2. The record says `starting` before a process is made (W9). After a crash, the next process
// ends what was left and starts again. Nothing is lost, because nobody had the sandbox yet.
// LD3. Stopped means that no process has the sandbox's mark. With bubblewrap that includes the
// first process of its pid namespace, and the kernel lets that end only after everything inside it,
// the jobs' own namespaces included.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { itemAt } from "../../domain/known.ts";
import type { NetworkPolicy } from "../../domain/sandbox/network.ts";
import { removeTree } from "../../guest/files/remove-tree.ts";
import { guestProtocolVersion } from "../../guest/protocol.ts";
import { endingWith, modelSocketOf, removeEgress, startEgress, stopEgress } from "../egress/egress.ts";
import { guestProgram } from "../guest/guest-program.ts";
import { withLock } from "../host/lock.ts";
import { machineBootId } from "../host/processes.ts";
import { sandboxUser } from "../host/users.ts";
import type { ArchiveFormat, DriverCapabilities, SandboxDriver, SandboxEndpoint, SandboxSpec } from "../port.ts";
import { type ArchiveWork, archiveFormats, packLocalFolder, unpackLocalFolder } from "./local/archive.ts";
import { checkLocal } from "./local/check.ts";
import { findAnswering, findRunningGuest, type RunningGuest, startGuest, stopGuest } from "./local/guest-process.ts";
import { type LocalDriverOptions, placesOf } from "./local/launch.ts";
import { listLocalSandboxes } from "./local/list.ts";
import { readRecord, type SandboxRecord } from "./local/record.ts";
import { finishRestores, takePlace, unpackingFolder } from "./local/restore.ts";
import { localUsage } from "./local/usage.ts";
import { folderLimitedBytes, prepareFolder } from "./local/volume.ts";
import { watchRecords } from "./local/watch.ts";

export type { LocalDriverOptions } from "./local/launch.ts";

const lockWaitMs = 120_000;

/**
 * Creates the driver `local` or, with `unsafe`, `local-unsafe`. Volumes are in
 * `<dataDir>/volumes/<projectId>`, records and sockets in `<dataDir>/sandboxes/<projectId>`.
 * `program` finds the guest's program, given a folder for what it builds.
 */
export function createLocalDriver(given: LocalDriverOptions, program = guestProgram): SandboxDriver {
  const options = (): LocalDriverOptions => ({ ...given, dataDir: makeDataFolder(given.dataDir) });
  // Bundled from sources at each call, and once is enough.
  let found: Promise<Program> | null = null;
  const programOnce = () => {
    found ??= program(join(options().dataDir, "cache")).then(identified);
    return found;
  };
  return {
    name: driverName(given),
    check: () => checkLocal(options()),
    capabilities: async () => capabilitiesOf(given),
    ensure: async (spec) => ensure(options(), spec, await programOnce()),
    find: async (projectId) => {
      const localOptions = options();
      const places = placesOf(localOptions.dataDir, projectId);
      const running = findAnswering(localOptions, places) ?? (await findRunningGuest(localOptions, places));
      // Another driver's sandbox may isolate less than this one's caller relies on.
      return running === null || running.record.driver !== driverName(given) ? null : endpointOf(localOptions, running);
    },
    list: () => listLocalSandboxes(options()),
    usage: (projectId) => localUsage(options(), projectId),
    volumeBytes: (projectId, limitMs) => folderLimitedBytes(placesOf(options().dataDir, projectId).volume, limitMs),
    stop: (projectId) => stopped(options(), projectId, async () => undefined),
    remove: (projectId, { volume }) =>
      stopped(options(), projectId, async () => {
        const places = placesOf(options().dataDir, projectId);
        await finishRestores(places);
        if (volume) await removeTree(places.volume);
        await removeTree(places.run);
        await removeEgress({ ...options(), projectId });
      }),
    pack: async (projectId, format) => pack(await workOn(options(), projectId, format, programOnce)),
    restore: async (projectId, archive, { format, maxBytes }) =>
      restore(await workOn(options(), projectId, format, programOnce), projectId, { archive, maxBytes }),
    watch: (signal) => watchRecords(options(), signal),
  };
}

/** Nothing here limits what a sandbox uses; only its volume can be counted. */
const capabilitiesOf = (options: LocalDriverOptions): DriverCapabilities => ({
  isolation: options.unsafe ? "none" : "bubblewrap",
  cpu: "none",
  memory: "none",
  processes: "none",
  disk: "watched",
  network: options.unsafe ? ["open"] : ["none", "allowlist", "open"],
  archives: archiveFormats(options),
});

const driverName = ({ unsafe }: LocalDriverOptions) => (unsafe ? "local-unsafe" : "local");

function makeDataFolder(dataDir: string): string {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return realpathSync(resolve(dataDir));
}

interface Program {
  readonly path: string;
  /** Tells whether a running guest has the same program. */
  readonly hash: string;
}

function identified(path: string): Program {
  return { path, hash: createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 16) };
}

async function ensure(options: LocalDriverOptions, spec: SandboxSpec, program: Program): Promise<SandboxEndpoint> {
  const places = placesOf(options.dataDir, spec.projectId);
  const wanted = wantedRecord(options, spec, program);
  const answering = findAnswering(options, places) ?? (await findRunningGuest(options, places));
  const endpointWithEgress = async (running: RunningGuest) => {
    await openEgress(options, spec);
    return endpointOf(options, running);
  };
  if (answering !== null && differences(answering.record, wanted).length === 0) return endpointWithEgress(answering);
  return withLock(places.lock, lockWaitMs, async () => {
    const running = await findRunningGuest(options, places);
    if (running !== null) {
      const differing = differences(running.record, wanted);
      if (differing.length === 0) return endpointWithEgress(running);
      if (running.health.activeJobs > 0) throw inUse(running, differing);
    }
    await stopGuest(options, places, running?.record ?? ours(options, readRecord(places.run)) ?? wanted);
    await finishRestores(places);
    return endpointWithEgress(await begin(options, spec, wanted, program));
  });
}

async function begin(
  options: LocalDriverOptions,
  spec: SandboxSpec,
  wanted: SandboxRecord,
  program: Program,
): Promise<RunningGuest> {
  const egress = await openEgress(options, spec);
  try {
    return await startGuest(options, placesOf(options.dataDir, spec.projectId), wanted, {
      program: program.path,
      egress,
    });
  } catch (error) {
    await stopEgress({ ...options, projectId: spec.projectId });
    throw error;
  }
}

/**
 * Starts the sandbox's egress: the folder through which it reaches models and, by the proxy, the
 * allowed hosts.
 */
async function openEgress(options: LocalDriverOptions, { projectId, network }: SandboxSpec): Promise<string> {
  const { dataDir, installationId, silenceMs } = options;
  const policy: NetworkPolicy = options.unsafe ? { mode: "open", hosts: [] } : network;
  return (await startEgress({ dataDir, installationId, projectId, policy, ...endingWith(silenceMs) })).folder;
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

/** Returns how the running sandbox differs from the wanted one, in words. */
function differences(running: SandboxRecord, wanted: SandboxRecord): string[] {
  // The proxy knows the allowed hosts, which may change while the sandbox runs.
  const compared = ({ driver, network, protocol, program }: SandboxRecord) => ({
    driver,
    network: network.mode,
    protocol,
    program,
  });
  const now = Object.entries(compared(wanted));
  return Object.entries(compared(running)).flatMap(([key, value], index) => {
    const [, other] = itemAt(now, index);
    if (value === other) return [];
    return key === "program" ? ["the guest of another version of Wavesmith"] : [`${key} ${value} instead of ${other}`];
  });
}

function inUse({ record, health }: RunningGuest, differing: readonly string[]): WavesmithError {
  const what = `the sandbox of ${record.projectId} runs with ${differing.join(" and ")}`;
  return new WavesmithError("conflict", `${what}, but ${health.activeJobs} of its jobs are active`, {
    retryable: true,
    remedy: `wait for its jobs to end, or end them: wavesmith sandbox stop ${record.projectId}`,
  });
}

function endpointOf(options: LocalDriverOptions, { record, guest, health }: RunningGuest): SandboxEndpoint {
  const workspaceRoot = health.workspaceRoot.replace(/\/+$/, "");
  const modelSocket = modelSocketOf({ dataDir: options.dataDir, projectId: record.projectId });
  const wall = { isolation: options.unsafe ? "none" : "bubblewrap", runtime: null } as const;
  return { sandboxId: record.sandboxId, guest, workspaceRoot, bootId: health.bootId, wall, modelSocket };
}

function ours(options: LocalDriverOptions, record: SandboxRecord | null): SandboxRecord | null {
  return record?.installationId === options.installationId ? record : null;
}

async function stopped(options: LocalDriverOptions, projectId: ProjectId, then: () => Promise<void>): Promise<void> {
  const places = placesOf(options.dataDir, projectId);
  if (!existsSync(places.run) && !existsSync(places.volume)) return removeEgress({ ...options, projectId });
  await withLock(places.lock, lockWaitMs, async () => {
    const record = ours(options, readRecord(places.run));
    if (record !== null) await stopGuest(options, places, record);
    await stopEgress({ ...options, projectId });
    await then();
  });
}

async function workOn(
  options: LocalDriverOptions,
  projectId: ProjectId,
  format: ArchiveFormat,
  program: () => Promise<Program>,
): Promise<Omit<ArchiveWork, "folder">> {
  return { options, places: placesOf(options.dataDir, projectId), format, program: (await program()).path };
}

/** Packs the volume, after finishing a restore that crashed so that there is one volume. */
async function pack(work: Omit<ArchiveWork, "folder">): Promise<Readable> {
  const { places } = work;
  if (!existsSync(places.volume)) await withLock(places.lock, lockWaitMs, () => finishRestores(places));
  if (existsSync(places.volume)) return packLocalFolder({ ...work, folder: places.volume });
  throw new WavesmithError("not-found", `there is no volume ${places.volume}`);
}

async function restore(
  work: Omit<ArchiveWork, "folder">,
  projectId: ProjectId,
  { archive, maxBytes }: { archive: Readable; maxBytes: number },
): Promise<void> {
  const { options, places } = work;
  const folder = unpackingFolder(places);
  try {
    await prepareFolder(folder, options.unsafe ? null : sandboxUser(options.dataDir));
    await unpackLocalFolder({ ...work, folder, maxBytes }, archive);
    await stopped(options, projectId, () => takePlace(places, folder));
  } finally {
    archive.destroy();
    await removeTree(folder);
  }
}
