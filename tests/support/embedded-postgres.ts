import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { placeIn } from "../../src/store/embedded/place.ts";
import { readPidFile } from "../../src/store/embedded/postmaster.ts";
import { connectionTo } from "../../src/store/embedded/session.ts";
import { eachTestEnds } from "./after-file.ts";
import { bundledProgram } from "./bundled-program.ts";

const program = await bundledProgram("embedded-postgres-user");

/** Another process that uses an embedded Postgres. */
export interface UserProcess {
  readonly process: ChildProcess;
  /** Resolves once it has joined; otherwise rejects with what it printed. */
  ready(): Promise<void>;
  /** Makes it call `close` or `ensure`; resolves when that is done. */
  ask(what: "close" | "ensure"): Promise<void>;
  kill(): Promise<void>;
}

const users = new Set<UserProcess>();
const folders: string[] = [];
const servers = new Set<number>();

/** A data directory that is removed after the test, with every process that still uses it. */
export function temporaryFolder(parent = tmpdir()): string {
  const folder = mkdtempSync(join(parent, "wavesmith-test-"));
  folders.push(folder);
  return folder;
}

/** Creates a folder like `temporaryFolder`, owned by user `uid`. */
export function temporaryFolderOf(uid: number): string {
  const folder = temporaryFolder();
  chownSync(folder, uid, uid);
  return folder;
}

/**
 * Starts a process that joins the Postgres of `dataDir`, as user `uid` if given, with its temporary
 * files beside `dataDir`.
 */
export function startUser(dataDir: string, options: { orphanTimeoutMs?: number; uid?: number } = {}): UserProcess {
  const { uid, orphanTimeoutMs = 60_000 } = options;
  const child = spawn(process.execPath, [program, dataDir, `${orphanTimeoutMs}`], {
    stdio: ["pipe", "pipe", "inherit"],
    ...(uid === undefined ? {} : { uid, gid: uid, env: { PATH: process.env.PATH, TMPDIR: dirname(dataDir) } }),
  });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const expectLine = async (wanted: string) => {
    const { value } = await lines.next();
    if (value !== wanted) throw new Error(`expected ${wanted}, it said ${value}`);
    if (wanted === "ready") rememberServer(dataDir);
  };
  const exited = new Promise<void>((settle) => child.once("exit", () => settle()));
  const user: UserProcess = {
    process: child,
    ready: () => expectLine("ready"),
    ask: async (what) => {
      child.stdin!.write(`${what}\n`);
      await expectLine(what);
    },
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
  users.add(user);
  return user;
}

/** The process id of the server of `dataDir`; null if there is none. */
export function serverPid(dataDir: string): number | null {
  return existsSync(dataDir) ? (readPidFile(placeIn(dataDir))?.pid ?? null) : null;
}

/** Makes the cleanup wait until the server has ended. */
export function rememberServer(dataDir: string): void {
  const pid = serverPid(dataDir);
  if (pid !== null) servers.add(pid);
}

/** Opens a superuser's connection to the running server of `dataDir`. */
export async function connectAsAdmin(dataDir: string): Promise<Client> {
  const { socketDir } = readPidFile(placeIn(dataDir))!;
  const client = new Client(
    connectionTo(socketDir, { user: "postgres", database: "postgres", applicationName: "test" }),
  );
  client.on("error", () => {
    // Tests kill the server while it is in use.
  });
  await client.connect();
  return client;
}

export function isRunning(pid: number): boolean {
  try {
    // A process that has ended but was not waited for counts as gone.
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

/** Waits until the condition holds; fails after half a minute. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within half a minute: ${condition}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

eachTestEnds(async () => {
  for (const user of users) await user.kill();
  users.clear();
  for (const pid of servers) {
    if (isRunning(pid)) process.kill(pid, "SIGINT");
    await until(() => !isRunning(pid));
  }
  servers.clear();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});
