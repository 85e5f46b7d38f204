import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { type FileHandle, open, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Binaries } from "./binaries.ts";
import { clusterArgument, walSegmentMiB } from "./cluster.ts";
import { databaseFailure, tailOf } from "./failure.ts";
import type { ClusterPlace } from "./place.ts";
import { cleanEnvironment, identityOf } from "./run-program.ts";
import type { ServerUser } from "./server-identity.ts";
import { isListening, isOurSocketDir, makeSocketDir, removeSocketDir } from "./socket-dir.ts";

const logLimitBytes = 10 * 1024 * 1024;
export const probePrefix = "wavesmith.probe-";

// Small, durable, and reachable through the socket alone.
const settings: Readonly<Record<string, string>> = {
  listen_addresses: "",
  port: "5432",
  unix_socket_permissions: "0700",
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  max_connections: "100",
  shared_buffers: "32MB",
  wal_level: "minimal",
  max_wal_senders: "0",
  max_logical_replication_workers: "0",
  max_wal_size: "256MB",
  io_method: "sync",
  huge_pages: "off",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_checkpoints: "off",
  logging_collector: "off",
  restart_after_crash: "on",
};

/** Reads the pid file of a running server; null when there is none, or it is being written. */
export function readPidFile(place: ClusterPlace): { pid: number; socketDir: string } | null {
  const path = join(place.clusterDir, "postmaster.pid");
  if (!existsSync(path)) return null;
  const lines = readIfThere(path).split("\n");
  const [pid, socketDir] = [Number(lines[0]), lines[4] ?? ""];
  return pid > 0 && socketDir !== "" ? { pid, socketDir } : null;
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

/** A started server that may not be ready yet. */
export interface StartingServer {
  /** Returns null while it runs, "again" if it may be started again, otherwise why it ended. */
  end(): Promise<null | "again" | Error>;
}

export interface StartOptions {
  readonly place: ClusterPlace;
  readonly binaries: Binaries;
  readonly user: ServerUser;
  /** The locked lock file; the server keeps it locked as long as any of its processes lives. */
  readonly lock: FileHandle;
  /** Whether the lock is certain, so that a dead server's leftovers may be removed. */
  readonly alone: boolean;
}

/** Starts a detached server, which outlives this process and gets no signals from its terminal. */
export async function startPostmaster(options: StartOptions): Promise<StartingServer> {
  const { place, binaries, user, lock } = options;
  if (options.alone) await removeTraces(place, user);
  const socketDir = await makeSocketDir(user, (folder) => writeFile(place.socketFile, folder, { mode: 0o600 }));
  const log = await openLog(place);
  try {
    const from = (await log.stat()).size;
    const child = spawn(binaries.postgres, argumentsFor(place, socketDir), {
      cwd: place.clusterDir,
      env: cleanEnvironment,
      detached: true,
      stdio: ["ignore", log.fd, log.fd, lock.fd],
      ...identityOf(user),
    });
    let ended: string | null = null;
    child.once("exit", (code, signal) => {
      ended = `exit code ${code ?? signal}`;
      void removeSocketDir(socketDir);
    });
    child.once("error", (error) => {
      ended = error.message;
      void removeSocketDir(socketDir);
    });
    child.unref();
    return { end: async () => (ended === null ? null : reasonFor(ended, place, await tailOf(place.logFile, from))) };
  } finally {
    await log.close();
  }
}

function argumentsFor(place: ClusterPlace, socketDir: string): string[] {
  const all = Object.entries({ ...settings, ...logSettings(place), unix_socket_directories: socketDir });
  return ["-D", clusterArgument(place.clusterDir), ...all.flatMap(([name, value]) => ["-c", `${name}=${value}`])];
}

/**
 * How much of its log stays on the disk. A cluster of an earlier version has large segments; a new
 * one keeps none for later, as its configuration says.
 */
function logSettings({ clusterDir }: ClusterPlace): Record<string, string> {
  const log = join(clusterDir, "pg_wal");
  const segment = readdirSync(log).find((name) => /^[0-9A-F]{24}$/.test(name));
  const isSmall = segment !== undefined && statSync(join(log, segment)).size === walSegmentMiB << 20;
  return isSmall ? {} : { min_wal_size: "32MB" };
}

async function reasonFor(ended: string, place: ClusterPlace, output: string): Promise<"again" | Error> {
  // Another process used the server and, as its last user, stopped it before we could join.
  if (ended === "exit code 0" || ended === "exit code SIGKILL") return "again";
  if (/lock file ".*" already exists|pre-existing shared memory block/.test(output)) return "again";
  return databaseFailure(`Postgres for ${place.clusterDir} did not start (${ended})`, place, output);
}

/**
 * Removes the leftovers of a killed server. Because we hold the lock, nothing of it is alive.
 * Postgres itself would refuse to start if any process has the old server's pid now.
 */
async function removeTraces(place: ClusterPlace, user: ServerUser): Promise<void> {
  for (const socketDir of [readPidFile(place)?.socketDir ?? "", readIfThere(place.socketFile)]) {
    // In a copy of a data directory this is the original's folder, whose server may be alive.
    if (isOurSocketDir(socketDir, user) && !(await isListening(socketDir))) await removeSocketDir(socketDir);
  }
  await rm(join(place.clusterDir, "postmaster.pid"), { force: true });
  for (const name of await readdir(place.clusterDir)) {
    if (name.startsWith(probePrefix)) await rm(join(place.clusterDir, name), { force: true });
  }
}

async function openLog(place: ClusterPlace): Promise<FileHandle> {
  const size = (await stat(place.logFile).catch(() => null))?.size ?? 0;
  const log = await open(place.logFile, "a", 0o600);
  if (size > logLimitBytes) await log.truncate(0);
  return log;
}
