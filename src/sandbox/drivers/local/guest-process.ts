import { lstatSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import { removeTree } from "../../../guest/files/remove-tree.ts";
import type { GuestHealth } from "../../../guest/protocol.ts";
import { createGuestClient } from "../../guest/guest-client.ts";
import { findProcesses, findProcessesByEnvironment, killProcess, processStart } from "../../host/processes.ts";
import { sandboxUser } from "../../host/users.ts";
import type { GuestClient } from "../../port.ts";
import { type LocalDriverOptions, launch, markOf, type Places, socketName } from "./launch.ts";
import { isRecordRunning, readRecord, type SandboxRecord, writeRecord } from "./record.ts";
import { prepareFolder } from "./volume.ts";

const startLimitMs = 30_000;
/** How long a living guest may leave us without an answer on a busy machine. */
const patienceMs = 20_000;
const shutdownLimitMs = 10_000;
const killLimitMs = 15_000;
const recentMs = 1_000;
const temporaryPrefix = "wavesmith-sandbox-";

export interface RunningGuest {
  readonly record: SandboxRecord;
  readonly guest: GuestClient;
  readonly health: GuestHealth;
}

/**
 * Returns the running sandbox if it answers, otherwise null; a silent one counts as dead, with a
 * warning.
 */
export async function findRunningGuest(options: LocalDriverOptions, places: Places): Promise<RunningGuest | null> {
  for (const deadline = performance.now() + patienceMs; ; await delay(50)) {
    const record = readRecord(places.run);
    if (record === null || record.installationId !== options.installationId || !isRecordRunning(record)) return null;
    const answered = await askHealth(places, record);
    if (typeof answered !== "string") return { ...answered, record };
    if (performance.now() > deadline) {
      options.logger?.warn(`the guest of ${record.projectId} (process ${record.pid}) does not answer: ${answered}`);
      return null;
    }
  }
}

/**
 * Starts the guest that `wanted` describes. The caller holds the project's lock, and nothing of the
 * sandbox runs.
 */
export async function startGuest(
  options: LocalDriverOptions,
  places: Places,
  wanted: SandboxRecord,
  { program, egress }: { readonly program: string; readonly egress: string },
): Promise<RunningGuest> {
  await prepareFolder(places.run, null);
  const user = options.unsafe ? null : sandboxUser(options.dataDir);
  for (const folder of [places.volume, places.socket]) await prepareFolder(folder, user);
  rmSync(join(places.socket, socketName), { force: true });
  const temporary = options.unsafe ? mkdtempSync(join(tmpdir(), temporaryPrefix)) : null;
  const intent = { ...wanted, temporary };
  writeRecord(places.run, intent);
  const { projectId, network } = wanted;
  const child = await launch({ options, places, program, projectId, network: network.mode, egress, temporary });
  const startedRecord = { ...intent, pid: child.pid!, pidStart: processStart(child.pid!) };
  writeRecord(places.run, startedRecord);
  const deadline = performance.now() + startLimitMs;
  let answered: Awaited<ReturnType<typeof askHealth>> = "";
  while (child.exitCode === null && child.signalCode === null && performance.now() < deadline) {
    answered = await askHealth(places, startedRecord);
    if (typeof answered !== "string")
      return { ...answered, record: recordReady(places, startedRecord, answered.health) };
    await delay(15);
  }
  await end(options, places, startedRecord);
  throw new WavesmithError(
    "sandbox-unavailable",
    `the guest of ${wanted.projectId} did not start: ${answered}\n${logTail(places)}`,
    {
      retryable: true,
      remedy: `read ${places.log}, or try: wavesmith doctor`,
    },
  );
}

function recordReady(places: Places, startedRecord: SandboxRecord, { bootId, startedAt }: GuestHealth): SandboxRecord {
  const record: SandboxRecord = { ...startedRecord, state: "running", bootId, startedAt };
  writeRecord(places.run, record);
  return record;
}

/**
 * Asks the guest to end its jobs and itself, kills the rest, and returns once no process of the
 * sandbox is left.
 */
export async function stopGuest(options: LocalDriverOptions, places: Places, record: SandboxRecord): Promise<void> {
  const answered = isRecordRunning(record) ? await askHealth(places, record) : "";
  if (typeof answered !== "string") {
    const shutdown = answered.guest.shutdown().catch((error) => {
      options.logger?.warn(`the guest of ${record.projectId} did not shut down by itself: ${messageOf(error)}`);
    });
    await Promise.race([shutdown, delay(shutdownLimitMs, undefined, { ref: false })]);
    const deadline = performance.now() + shutdownLimitMs;
    while (processesOf(options, places, record).length > 0 && performance.now() < deadline) await delay(20);
  }
  await end(options, places, record);
}

const nothingLeft = { state: "stopped", pid: null, pidStart: null, temporary: null } as const;

/** Kills every process of the sandbox; returns once two checks in a row find none. */
async function end(options: LocalDriverOptions, places: Places, record: SandboxRecord): Promise<void> {
  const deadline = performance.now() + killLimitMs;
  for (let quiet = 0; quiet < 2; await delay(10)) {
    const left = processesOf(options, places, record);
    quiet = left.length === 0 ? quiet + 1 : 0;
    left.forEach(killProcess);
    if (left.length > 0 && performance.now() > deadline) {
      const which = `processes ${left.join(", ")} of sandbox ${record.projectId}`;
      throw new WavesmithError("sandbox-unavailable", `${which} do not end`, { retryable: true });
    }
  }
  rmSync(join(places.socket, socketName), { force: true });
  if (record.temporary?.startsWith(join(tmpdir(), temporaryPrefix))) await removeTree(record.temporary);
  if (readRecord(places.run) !== null) writeRecord(places.run, { ...record, ...nothingLeft });
}

/** Returns the sandbox's processes that carry its mark, without their unmarked children. */
export function processesOf(
  options: LocalDriverOptions,
  places: Places,
  { projectId, driver }: SandboxRecord,
): number[] {
  const unsafe = driver === "local-unsafe";
  const marked = findProcesses(markOf({ ...options, unsafe }, projectId));
  // Without namespaces, jobs survive the death of their guest, which marked them.
  return unsafe ? [...marked, ...findProcessesByEnvironment("WAVESMITH_VOLUME", places.volume)] : marked;
}

// One client per guest: it keeps its connections, because every step of every task uses it.
const clients = new Map<string, KnownGuest>();

interface KnownGuest {
  readonly process: string;
  readonly guest: GuestClient;
  answered: { readonly health: GuestHealth; readonly atMs: number } | null;
}

function knownGuest(places: Places, { pid, pidStart }: SandboxRecord): KnownGuest {
  const process = `${pid} ${pidStart}`;
  const known = clients.get(places.socket);
  if (known?.process === process) return known;
  const made: KnownGuest = { process, guest: createGuestClient({ socketFolder: places.socket }), answered: null };
  clients.set(places.socket, made);
  return made;
}

/**
 * Returns the running sandbox if it answered within the last second. Its number of jobs may have
 * changed since.
 */
export function findAnswering(options: LocalDriverOptions, places: Places): RunningGuest | null {
  const record = readRecord(places.run);
  if (record === null || record.installationId !== options.installationId || !isRecordRunning(record)) return null;
  const { guest, answered } = knownGuest(places, record);
  if (answered === null || performance.now() - answered.atMs > recentMs) return null;
  return { record, guest, health: answered.health };
}

/** Returns the guest and its health, or why it does not answer. */
async function askHealth(places: Places, record: SandboxRecord): Promise<Omit<RunningGuest, "record"> | string> {
  try {
    // A link here would make us speak to another program's socket.
    if (!lstatSync(places.socket).isDirectory() || !lstatSync(join(places.socket, socketName)).isSocket())
      return "no socket";
    const known = knownGuest(places, record);
    const { guest } = known;
    const health = await guest.health(AbortSignal.timeout(5000));
    known.answered = { health, atMs: performance.now() };
    return { guest, health };
  } catch (error) {
    return messageOf(error);
  }
}

function logTail(places: Places): string {
  return readFileSync(places.log, "utf8").slice(-2000);
}
