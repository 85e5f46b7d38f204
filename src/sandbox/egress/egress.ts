// Starts, changes and ends the egress proxies of this machine's sandboxes.
//
// EG1. There is one proxy process per project. It changes only under the project's egress lock,
// which dies with its holder.
// EG2. The record says `starting` before the process is made (W9). Its command line carries a mark,
// which finds a process whose id was never recorded. Only processes with that mark are ended.
// EG3. The folder that is shown in the sandbox stays the same over every start, because a running
// sandbox has it mounted.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { present } from "../../domain/known.ts";
import type { NetworkPolicy } from "../../domain/sandbox/network.ts";
import { withLock } from "../host/lock.ts";
import { findProcesses, killProcess, machineBootId, processStart } from "../host/processes.ts";
import { sandboxUser } from "../host/users.ts";
import { type EgressProgram, egressProgram } from "./program.ts";
import {
  aliveName,
  decisionsName,
  egressRecordName,
  folderName,
  hashOf,
  modelName,
  outputName,
  type PolicyFile,
  policyName,
  proxyName,
} from "./state.ts";

const lockWaitMs = 60_000;
const startLimitMs = 30_000;
const endLimitMs = 15_000;

export interface EgressPlace {
  readonly dataDir: string;
  readonly installationId: string;
  readonly projectId: ProjectId;
}

export interface EgressRequest extends EgressPlace {
  readonly policy: NetworkPolicy;
  /**
   * How long the proxy lives without a sandbox: before the first one (default 5 minutes), and after
   * the last one (45 seconds).
   */
  readonly firstMs?: number;
  readonly lostMs?: number;
}

/** When guests have a shorter silence limit, the proxies get it too. */
export const endingWith = (silenceMs: number | undefined): Pick<EgressRequest, "firstMs" | "lostMs"> =>
  silenceMs === undefined ? {} : { lostMs: Math.min(silenceMs, 30_000), firstMs: silenceMs + 15_000 };

interface EgressRecord {
  readonly state: "starting" | "running";
  readonly installationId: string;
  readonly projectId: ProjectId;
  /** The program's hash: another version of us restarts the proxy. */
  readonly program: string;
  readonly policy: string;
  readonly pid: number | null;
  readonly pidStart: string | null;
  readonly machineBoot: string;
}

/**
 * Creates the egress folder of a sandbox with this policy, and starts the proxy behind it if the
 * mode is `allowlist`. Idempotent, and safe from many processes at once. A changed policy applies
 * from then on; open connections stay.
 */
export async function startEgress(request: EgressRequest): Promise<{ folder: string }> {
  const state = stateOf(request);
  const folder = join(state, folderName);
  if (request.policy.mode !== "allowlist") {
    await stopEgress(request);
    makeFolders(state);
    return { folder };
  }
  const program = await programOnce(realpathSync(request.dataDir));
  const policy = hashOf(request.policy);
  const isOurs = (record: EgressRecord | null): record is EgressRecord =>
    record !== null && isRunning(record) && record.program === program.hash;
  // A process that is just being killed still counts as running, so only its answer counts.
  const held = async (record: EgressRecord | null) => (isOurs(record) ? policyInForce(state) : null);
  if ((await held(readRecord(state))) === policy) return { folder };
  await withLock(lockOf(request), lockWaitMs, async () => {
    const record = readRecord(state);
    const inForce = await held(record);
    if (inForce === policy && record?.policy === policy) return;
    makeFolders(state);
    writePolicy(state, { policy: request.policy, hash: policy });
    if (inForce !== null && record !== null) {
      await change(state, { ...record, policy });
      return;
    }
    await end(request);
    await start(request, state, program);
  });
  return { folder };
}

/** Ends the proxy of a stopped sandbox. Its decisions stay readable. Safe to call twice. */
export async function stopEgress(place: EgressPlace): Promise<void> {
  if (ownerOf(place) !== place.installationId) return;
  await withLock(lockOf(place), lockWaitMs, async () => {
    if (ownerOf(place) === place.installationId) await end(place);
  });
}

/** Ends the proxy and removes its files. Safe to call twice. */
export async function removeEgress(place: EgressPlace): Promise<void> {
  await stopEgress(place);
  if (ownerOf(place) !== null) return; // It belongs to another installation, or was started again.
  rmSync(stateOf(place), { recursive: true, force: true });
}

/** Returns the installation that owns the recorded proxy; null when none is recorded. */
const ownerOf = (place: EgressPlace): string | null => readRecord(stateOf(place))?.installationId ?? null;

export function stateOf({ dataDir, projectId }: Pick<EgressPlace, "dataDir" | "projectId">): string {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is not a project id`);
  return join(realpathSync(dataDir), "egress", projectId);
}

/** Returns the socket on which model calls from the sandbox arrive. */
export const modelSocketOf = (place: Pick<EgressPlace, "dataDir" | "projectId">): string =>
  join(stateOf(place), folderName, modelName);

/** Returns the file with the decisions of a project's proxy. */
export const decisionsOf = (place: Pick<EgressPlace, "dataDir" | "projectId">): string =>
  join(stateOf(place), decisionsName);

const lockOf = ({ dataDir, projectId }: EgressPlace): string =>
  join(realpathSync(dataDir), "locks", `egress-${projectId}`);

/** Marks the command line of this project's proxy; another data directory has another mark. */
function markOf(place: EgressPlace): string[] {
  const where = createHash("sha256").update(stateOf(place)).digest("hex").slice(0, 16);
  return ["--mark", `${place.installationId}:${place.projectId}:${where}`];
}

const programs = new Map<string, Promise<EgressProgram>>();

/** Bundled from sources at each call, and once is enough. */
function programOnce(dataDir: string): Promise<EgressProgram> {
  const found = programs.get(dataDir) ?? egressProgram(join(dataDir, "cache"));
  programs.set(dataDir, found);
  found.catch(() => programs.delete(dataDir));
  return found;
}

/**
 * Others may not enter the state folder. The part shown in the sandbox is open, because a container
 * has another user.
 */
function makeFolders(state: string): void {
  mkdirSync(state, { recursive: true, mode: 0o700 });
  mkdirSync(join(state, folderName), { recursive: true });
  chmodSync(join(state, folderName), 0o755);
}

/**
 * In place, because the process has the file open and may have lost access to the folders above.
 */
function writePolicy(state: string, policy: PolicyFile): void {
  writeFileSync(join(state, policyName), `${JSON.stringify(policy)}\n`, { mode: 0o600 });
}

async function start(request: EgressRequest, state: string, program: EgressProgram): Promise<void> {
  const { installationId, projectId } = request;
  const intent: EgressRecord = {
    state: "starting",
    installationId,
    projectId,
    program: program.hash,
    policy: hashOf(request.policy),
    pid: null,
    pidStart: null,
    machineBoot: machineBootId(),
  };
  writeRecord(state, intent);
  const child = launch(request, state, program.path);
  const failed = new Promise<never>((_, reject) => child.once("error", reject));
  await Promise.race([failed, new Promise((done) => child.once("spawn", done))]);
  failed.catch(() => undefined); // Only starting it could fail.
  child.unref();
  const pid = present(child.pid, "its process id");
  const record: EgressRecord = { ...intent, pid, pidStart: processStart(pid) };
  writeRecord(state, record);
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  if (await untilHolds(state, record.policy, isOver)) {
    writeRecord(state, { ...record, state: "running" });
    return;
  }
  await end(request);
  throw unavailable(projectId, `did not start: ${readFileSync(join(state, outputName), "utf8").slice(-1000)}`);
}

function launch(request: EgressRequest, state: string, program: string) {
  const user = sandboxUser(realpathSync(request.dataDir));
  const args = [program, "--state", state, ...markOf(request)];
  if (user !== null) args.push("--uid", String(user.uid), "--gid", String(user.gid));
  if (request.firstMs !== undefined) args.push("--first-ms", String(request.firstMs));
  if (request.lostMs !== undefined) args.push("--lost-ms", String(request.lostMs));
  const output = openSync(join(state, outputName), "w", 0o600);
  try {
    return spawn(process.execPath, args, { cwd: "/", detached: true, env: {}, stdio: ["ignore", output, output] });
  } finally {
    closeSync(output);
  }
}

/** Makes the running process read the written policy, and waits until it applies. */
async function change(state: string, record: EgressRecord): Promise<void> {
  const { pid, projectId } = record;
  for (const deadline = performance.now() + startLimitMs; ; ) {
    if (!isRunning(record) || performance.now() > deadline)
      throw unavailable(projectId, "did not apply its new policy");
    process.kill(present(pid, "its process id"), "SIGHUP");
    if ((await policyInForce(state)) === record.policy) break;
    await delay(20);
  }
  writeRecord(state, record);
}

async function untilHolds(state: string, policy: string, isOver: () => boolean): Promise<boolean> {
  for (const deadline = performance.now() + startLimitMs; !isOver() && performance.now() < deadline; await delay(15)) {
    if ((await policyInForce(state)) === policy) return true;
  }
  return false;
}

/** Returns the hash of the policy that the process applies; null when it does not answer. */
function policyInForce(state: string): Promise<string | null> {
  const folder = openSync(join(state, folderName), "r");
  // A socket's path is limited to about 100 bytes; through an open folder it is short.
  const path = process.platform === "linux" ? `/proc/self/fd/${folder}` : join(state, folderName);
  return new Promise<string | null>((resolve) => {
    let text = "";
    const socket = connect(`${path}/${aliveName}`);
    socket.setTimeout(5_000, () => socket.destroy());
    socket.on("error", () => undefined); // "close" follows: it does not listen yet, or no longer.
    socket.on("data", (chunk) => {
      text += chunk.toString("utf8");
      if (text.includes("\n")) socket.destroy();
    });
    socket.on("close", () => resolve(/^\{"policy":"([0-9a-f]{16})"\}\n/.exec(text)?.[1] ?? null));
  }).finally(() => closeSync(folder));
}

/**
 * Kills the proxy's processes, recorded or not; returns once none is left. The caller holds the
 * lock.
 */
async function end(place: EgressPlace): Promise<void> {
  const state = stateOf(place);
  for (const deadline = performance.now() + endLimitMs; ; await delay(10)) {
    const left = findProcesses(markOf(place));
    left.forEach(killProcess);
    if (left.length === 0) break;
    if (performance.now() > deadline) throw unavailable(place.projectId, `does not end: process ${left.join(", ")}`);
  }
  for (const name of [proxyName, aliveName]) rmSync(join(state, folderName, name), { force: true });
  rmSync(join(state, egressRecordName), { force: true });
}

const unavailable = (projectId: string, what: string): WavesmithError =>
  new WavesmithError("sandbox-unavailable", `the egress proxy of ${projectId} ${what}`, {
    retryable: true,
    remedy: "try again, or run `wavesmith doctor`",
  });

function isRunning({ state, pid, pidStart, machineBoot }: EgressRecord): boolean {
  return (
    state === "running" &&
    pid !== null &&
    pidStart !== null &&
    machineBoot === machineBootId() &&
    processStart(pid) === pidStart
  );
}

function readRecord(state: string): EgressRecord | null {
  try {
    return JSON.parse(readFileSync(join(state, egressRecordName), "utf8")) as EgressRecord;
  } catch (error) {
    // Truncated by a power failure: nothing of that boot runs any more.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function writeRecord(state: string, record: EgressRecord): void {
  const draft = join(state, `${egressRecordName}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, join(state, egressRecordName));
}
