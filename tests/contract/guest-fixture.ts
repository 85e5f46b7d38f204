import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createGuestClient } from "../../src/sandbox/guest/guest-client.ts";
import { guestProgram } from "../../src/sandbox/guest/guest-program.ts";
import type { GuestClient, JobSpec, JobState, StageSpec } from "../../src/sandbox/port.ts";

export type IsolationName = "bubblewrap" | "sweep";

export interface GuestFixture {
  readonly client: GuestClient;
  /** The volume on the host. */
  readonly root: string;
  readonly folder: string;
  readonly socket: string;
  readonly process: ChildProcess;
  /** Starts another guest on the same volume, once this one is gone. */
  restart(): Promise<GuestFixture>;
  /** Ends the guest and removes everything. */
  stop(): Promise<void>;
}

export interface FixtureOptions {
  readonly isolation: IsolationName;
  readonly silenceMs?: number;
  /**
   * Starts the guest in an outer bubblewrap, as the driver `local` does, its volume a tmpfs of this
   * size.
   */
  readonly tmpfsBytes?: number;
  readonly folder?: string;
  /** A command that starts the guest, such as a program that creates a namespace. */
  readonly starter?: readonly string[];
  /** A module that the guest's Node loads first. */
  readonly preload?: string;
  /** Further arguments of the guest. */
  readonly args?: readonly string[];
  /**
   * The socket's folder, open: the guest gets it as descriptor 3 and reaches the socket through it.
   */
  readonly inherited?: number;
}

/** A real guest on its own volume. */
export async function startGuest(options: FixtureOptions): Promise<GuestFixture> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
  const root = join(folder, "volume");
  const socket = join(folder, "run", "guest.sock");
  for (const each of [folder, root, join(folder, "run"), join(folder, "cache")]) {
    mkdirSync(each, { recursive: true });
    // As root, the guest in an outer bubblewrap runs as another user.
    chmodSync(each, 0o777);
  }
  const program = await guestProgram(join(folder, "cache"));
  chmodSync(join(folder, "cache"), 0o755);
  const command =
    options.tmpfsBytes === undefined
      ? plainCommand(options, { folder, program })
      : outerCommand(options, { folder, program });
  const child = spawn(command[0]!, command.slice(1), {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe", options.inherited ?? "ignore"],
  });
  await ready(child);
  const client = createGuestClient({ connect: socket });
  const stop = async (): Promise<void> => {
    // The program that started it would not pass a signal on.
    if (options.starter !== undefined) await askedToEnd(client, child);
    await ended(child, "SIGTERM");
    rmSync(folder, { recursive: true, force: true });
  };
  const restart = (): Promise<GuestFixture> => startGuest({ ...options, folder });
  return { client, root, folder, socket, process: child, restart, stop };
}

/**
 * Starts the guest in a pid namespace whose first process adopts orphans, as docker-init does; it
 * sees the machine's files unchanged.
 */
export const pidNamespace = [
  ...["bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent"],
  ...["--dev-bind", "/", "/", "--proc", "/proc", "--"],
];

const toolPath = `${process.execPath.replace(/\/[^/]+$/, "")}:/usr/bin:/bin`;

function plainCommand(options: FixtureOptions, { folder, program }: { folder: string; program: string }): string[] {
  const silence = options.silenceMs === undefined ? [] : ["--silence-ms", String(options.silenceMs)];
  const socket = options.inherited === undefined ? "run/guest.sock" : "/proc/self/fd/3/guest.sock";
  const places = ["--root", join(folder, "volume"), "--socket", socket];
  return [
    ...(options.starter ?? []),
    process.execPath,
    ...(options.preload === undefined ? [] : ["--require", options.preload]),
    program,
    ...places,
    "--isolation",
    options.isolation,
    "--tool-path",
    toolPath,
    ...silence,
    ...(options.args ?? []),
  ];
}

function outerCommand(options: FixtureOptions, { folder, program }: { folder: string; program: string }): string[] {
  // As real root, bwrap covers parts of /proc, and then the inner bwrap may not mount a fresh one.
  const asUser = process.getuid?.() === 0 ? ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] : [];
  const view = [
    "--ro-bind",
    "/usr",
    "/usr",
    "--ro-bind",
    "/etc",
    "/etc",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
  ];
  const lib64 = ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"];
  const node = process.execPath.startsWith("/usr/") ? [] : ["--ro-bind", process.execPath, process.execPath];
  const places = ["--bind", join(folder, "run"), "/run/wavesmith", "--ro-bind", program, "/opt/guest.mjs"];
  const volume = ["--perms", "0755", "--size", String(options.tmpfsBytes), "--tmpfs", "/workspace"];
  const outer = [
    "bwrap",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--die-with-parent",
    ...view,
    ...lib64,
    ...node,
  ];
  const guest = [process.execPath, "/opt/guest.mjs", "--root", "/workspace", "--socket", "/run/wavesmith/guest.sock"];
  return [
    ...asUser,
    ...outer,
    ...places,
    ...volume,
    "--",
    ...guest,
    "--isolation",
    "bubblewrap",
    "--tool-path",
    toolPath,
  ];
}

function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    const listen = (chunk: Buffer): void => {
      said += chunk.toString();
      if (said.includes('"ready":true')) resolve();
    };
    child.stdout?.on("data", listen);
    child.stderr?.on("data", listen);
    child.on("exit", (code) => reject(new Error(`the guest ended with ${code}: ${said}`)));
    child.on("error", reject);
  });
}

async function askedToEnd(client: GuestClient, child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const isAsked = await client.shutdown().then(
    () => true,
    () => false, // The test has ended it.
  );
  if (isAsked && child.exitCode === null && child.signalCode === null) await exited;
}

export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await exited;
}

export function stage(change: Partial<StageSpec> & { argv: readonly string[] }): StageSpec {
  return { name: "main", cwd: "", env: {}, stdin: null, timeoutMs: 30_000, outputLimitBytes: 1024 * 1024, ...change };
}

export function shell(script: string, change: Partial<StageSpec> = {}): StageSpec {
  return stage({ argv: ["sh", "-c", script], ...change });
}

export function job(...stages: StageSpec[]): JobSpec {
  return { stages, writable: [""], labels: {} };
}

/** Resolves with the job once it has ended. */
export async function outcome(client: GuestClient, key: string): Promise<JobState> {
  return until(client, key, (state) => state.status !== "running");
}

/** Resolves with the job once `holds`. */
export async function until(client: GuestClient, key: string, holds: (state: JobState) => boolean): Promise<JobState> {
  const deadline = Date.now() + 50_000;
  for (let revision = 0; Date.now() < deadline; ) {
    const state = await client.findJob(key, { revision, waitMs: 5_000 });
    if (state === null) throw new Error(`no job ${key}`);
    if (holds(state)) return state;
    revision = state.revision;
    if (state.status !== "running") throw new Error(`job ${key} ended: ${JSON.stringify(state)}`);
  }
  throw new Error(`job ${key} took too long`);
}

export async function run(client: GuestClient, key: string, ...stages: StageSpec[]): Promise<JobState> {
  await client.startJob(key, job(...stages));
  return outcome(client, key);
}

/** Reads the whole output of an ended job. */
export async function outputOf(client: GuestClient, key: string): Promise<string> {
  const parts: Buffer[] = [];
  for (let offset = 0; ; ) {
    const read = await client.readOutput(key, { offset, limitBytes: 1024 * 1024, waitMs: 5_000 });
    parts.push(read.data);
    offset = read.nextOffset;
    if (read.ended) return Buffer.concat(parts).toString();
  }
}

/** Processes whose command line contains the text, except zombies. */
export function processesSaying(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => read(`/proc/${pid}/cmdline`).includes(text))
    .map(Number);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // It ended while we looked.
  }
}

/** Polls until the condition holds. */
export async function eventually(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`still not so: ${what}`);
    await delay(20);
  }
}

let tokens = 0;

/** A number of seconds for which no other process sleeps, which identifies the sleeper. */
export function sleepToken(): string {
  tokens += 1;
  return `9${process.pid}.${String(Date.now()).slice(-7)}${tokens}`;
}
