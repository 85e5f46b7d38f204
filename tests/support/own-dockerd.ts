// A separate Docker engine for one test, with its own data roots, which the test may kill without
// touching the machine's engine. Needs root.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { connectEngine } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import { imageName } from "../../src/sandbox/drivers/docker/image.ts";

const run = promisify(execFile);

export interface OwnEngine {
  readonly environment: { readonly DOCKER_HOST: string };
  /**
   * Kills the daemon with kill -9, and its own processes with it; containers keep running until it
   * starts again.
   */
  kill(): Promise<void>;
  /** Resolves once it answers. */
  start(): Promise<void>;
  /** Ends it with its containers, and removes its roots. */
  close(): Promise<void>;
}

/** Starts an engine in the folder, with the sandbox image of the machine's engine. */
export async function ownDockerd(folder: string): Promise<OwnEngine> {
  const socket = join(folder, "docker.sock");
  const environment = { DOCKER_HOST: `unix://${socket}` };
  const docker = connectEngine(environment);
  let daemon: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    // Their processes were killed, but count as running until somebody reaps them.
    for (const file of ["docker.pid", "exec/containerd/containerd.pid"]) rmSync(join(folder, file), { force: true });
    daemon = launch(folder, socket);
    await until("the engine answers", () =>
      docker.ping().then(
        () => true,
        () => false,
      ),
    );
  };
  const kill = async (): Promise<void> => {
    if (daemon === null) return;
    const ended = new Promise((resolve) => daemon!.once("exit", resolve));
    daemon.kill("SIGKILL");
    await ended;
    daemon = null;
    // Its own containerd goes with it.
    await until("its containerd is gone", () => processesOf(folder, "containerd\0--config").length === 0);
  };
  mkdirSync(folder, { recursive: true });
  await start();
  await run("sh", ["-c", 'docker save "$1" | docker -H "$2" load', "sh", imageName(), environment.DOCKER_HOST]);
  return {
    environment,
    start,
    kill,
    async close() {
      if (daemon === null) await start();
      for (const { Id } of await docker.listContainers({ all: true }))
        await docker.getContainer(Id).remove({ force: true });
      const ended = new Promise((resolve) => daemon!.once("exit", resolve));
      daemon!.kill("SIGTERM");
      await ended;
      await until("everything of it is gone", () => processesOf(folder, "").length === 0);
      // A killed daemon leaves its mounts.
      const mounts = readFileSync("/proc/self/mounts", "utf8")
        .split("\n")
        .map((line) => line.split(" ")[1] ?? "");
      for (const place of mounts.filter((one) => one.startsWith(folder)).reverse()) await run("umount", ["-l", place]);
      await run("rm", ["-rf", "--one-file-system", folder]);
    },
  };
}

function launch(folder: string, socket: string): ChildProcess {
  const log = openSync(join(folder, "dockerd.log"), "a");
  const roots = ["--data-root", join(folder, "data"), "--exec-root", join(folder, "exec")];
  const rest = ["--host", `unix://${socket}`, "--pidfile", join(folder, "docker.pid"), "--bridge", "none"];
  try {
    const args = [...roots, ...rest, "--iptables=false", "--ip-forward=false", "--ip-masq=false"];
    // In its own network: with `--bridge none` it would remove the bridge of the machine's engine.
    return spawn("unshare", ["--net", "dockerd", ...args], { stdio: ["ignore", log, log] });
  } finally {
    closeSync(log);
  }
}

function processesOf(folder: string, word: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      if (!Number.isInteger(pid) || pid === process.pid) return false;
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return command.includes(folder) && command.includes(word);
      } catch {
        return false; // It ended while we looked.
      }
    });
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 120_000; !(await holds()); ) {
    if (Date.now() > deadline) throw new Error(`not within two minutes: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
