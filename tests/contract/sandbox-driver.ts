import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ProjectId, SandboxId } from "../../src/domain/ids.ts";
import { markOf } from "../../src/sandbox/drivers/local/launch.ts";
import { processStart } from "../../src/sandbox/drivers/local/processes.ts";
import { readRecord, writeRecord } from "../../src/sandbox/drivers/local/record.ts";
import type { LocalDriverOptions } from "../../src/sandbox/drivers/local.ts";
import type { ExecResult, GuestClient, JobSpec, JobState, SandboxDriver, SandboxSpec } from "../../src/sandbox/port.ts";
import type { ProcessRequest } from "./sandbox-process.ts";

export interface DriverMaker {
  /** A driver on a data folder; `process` is what another process needs to make the same one. */
  make(dataDir: string): { driver: SandboxDriver; process: LocalDriverOptions };
}

export const specOf = (projectId: string, network: SandboxSpec["network"] = "none"): SandboxSpec => ({
  projectId: projectId as ProjectId,
  sandboxId: `sbx_${projectId}` as SandboxId,
  network,
});

/** Runs a shell script in the sandbox, with the whole volume writable. */
export function shell(guest: GuestClient, script: string): Promise<ExecResult> {
  return guest.exec({
    argv: ["sh", "-c", script],
    cwd: ".",
    env: {},
    writable: ["."],
    timeoutMs: 30_000,
    maxBytes: 1 << 20,
  });
}

export function scriptJob(script: string): JobSpec {
  const stage = { name: "agent", argv: ["sh", "-c", script], cwd: ".", env: {}, stdin: null };
  return { stages: [{ ...stage, timeoutMs: 120_000, outputLimitBytes: 1 << 20 }], writable: ["."], labels: {} };
}

/** Polls until `holds` gives something that is not null or false. */
export async function until<Found>(
  what: string,
  holds: () => Promise<Found> | Found,
  limitMs = 30_000,
): Promise<NonNullable<Found>> {
  for (const deadline = Date.now() + limitMs; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const found = await holds();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
  }
}

/** Host processes whose command line holds the word. */
export function processesWith(word: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      if (!Number.isInteger(pid) || pid === process.pid) return false;
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(word);
      } catch {
        return false; // It ended while we looked.
      }
    });
}

/** Kills the process that was started for the sandbox, and nothing else of it. */
async function killSandbox(dataDir: string, projectId: string): Promise<void> {
  const { pid } = readRecord(join(dataDir, "sandboxes", projectId))!;
  process.kill(pid!, "SIGKILL");
  await until("it is gone", () => processStart(pid!) === null);
}

interface Answer {
  readonly bootId: string;
  readonly exec: ExecResult | null;
  readonly job: JobState | null;
  readonly problems: readonly unknown[];
}

/** Another process that does what is asked; `kill` is kill -9. `prefix` is a command before node, such as setpriv. */
export function anotherProcess(
  request: ProcessRequest,
  prefix: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
) {
  const script = join(import.meta.dirname, "sandbox-process.ts");
  const argv = [...prefix, process.execPath, "--import", "tsx", script, JSON.stringify(request)];
  const child = spawn(argv[0]!, argv.slice(1), {
    stdio: ["ignore", "pipe", "pipe"],
    env,
    cwd: join(import.meta.dirname, "../.."),
  });
  let complaint = "";
  child.stderr.on("data", (chunk) => {
    complaint += chunk;
  });
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const answer = new Promise<Answer>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => resolve(JSON.parse(line)));
    child.on("close", (code) => reject(new Error(`ended with ${code} and no answer: ${complaint}`)));
  });
  return { answer, kill: () => child.kill("SIGKILL") && ended };
}

/** What every driver on this machine promises. `maker` makes drivers that share what lies in a data folder. */
export function describeSandboxDriver(name: string, maker: DriverMaker): void {
  describe(`the sandbox driver ${name}`, () => {
    let dataDir = "";
    let driver: SandboxDriver;
    let options: LocalDriverOptions;
    beforeEach(() => {
      dataDir = mkdtempSync(join(tmpdir(), "wavesmith-driver-"));
      ({ driver, process: options } = maker.make(dataDir));
    });
    afterEach(async () => {
      for (const sandbox of await driver.list()) await driver.remove(sandbox.projectId, { volume: true });
      rmSync(dataDir, { recursive: true, force: true });
      expect(processesWith(dataDir)).toEqual([]);
    });

    it("finds nothing wrong with a machine on which it works", async () => {
      expect(await driver.check()).toEqual([]);
    });

    it("gives the same running sandbox when asked twice, also by another driver object", async () => {
      const first = await driver.ensure(specOf("proj_a"));
      const again = await driver.ensure(specOf("proj_a"));
      const other = await maker.make(dataDir).driver.find("proj_a" as ProjectId);
      expect([again.bootId, other?.bootId]).toEqual([first.bootId, first.bootId]);
      expect(again.sandboxId).toBe("sbx_proj_a");
    });

    it("starts one sandbox when several processes ask at once", async () => {
      const request: ProcessRequest = { options, projectId: "proj_a", network: "none" };
      const answers = await Promise.all([1, 2, 3].map(() => anotherProcess(request).answer));
      expect(new Set(answers.map((answer) => answer.bootId)).size).toBe(1);
      expect((await driver.find("proj_a" as ProjectId))?.bootId).toBe(answers[0]!.bootId);
    });

    it("starts nothing when it only looks", async () => {
      expect(await driver.find("proj_a" as ProjectId)).toBeNull();
      expect(await driver.list()).toEqual([]);
    });

    it("runs commands in the volume with the programs of PATH", async () => {
      const { guest, workspaceRoot } = await driver.ensure(specOf("proj_a"));
      const result = await shell(guest, "pwd && node -p 1+1 && git init -q repo && git --version && hostname");
      expect(result).toMatchObject({ exitCode: 0 });
      expect(result.stdout.split("\n").slice(0, 2)).toEqual([workspaceRoot, "2"]);
    });

    it("passes nothing of the orchestrator's environment on", async () => {
      const env = { ...process.env, PLANTED_TOKEN: "hunter2" };
      const request: ProcessRequest = {
        options,
        projectId: "proj_a",
        network: "none",
        exec: ["sh", "-c", "env; cat /proc/[0-9]*/environ"],
      };
      const { exec } = await anotherProcess({ ...request, exec: ["sh", "-c", "env"] }, [], env).answer;
      expect(exec?.stdout).toMatch(/^PATH=/m);
      expect(exec?.stdout).not.toMatch(/PLANTED|hunter2/);
    });

    it("keeps the volume's files over a stop and a start", async () => {
      const { guest, bootId } = await driver.ensure(specOf("proj_a"));
      await guest.writeFile("notes/kept.txt", "kept");
      await driver.stop("proj_a" as ProjectId);
      expect(await driver.find("proj_a" as ProjectId)).toBeNull();
      const again = await driver.ensure(specOf("proj_a"));
      expect(again.bootId).not.toBe(bootId);
      expect((await again.guest.readFile("notes/kept.txt"))?.toString()).toBe("kept");
    });

    it("finds the jobs of an orchestrator that was killed", async () => {
      const job = { key: "job-1", spec: scriptJob("until [ -e go ]; do sleep 0.05; done; echo went") };
      const starter = anotherProcess({ options, projectId: "proj_a", network: "none", job, hang: true });
      expect((await starter.answer).job?.status).toBe("running");
      await starter.kill();
      const found = await driver.find("proj_a" as ProjectId);
      expect((await found!.guest.findJob("job-1"))?.status).toBe("running");
      await found!.guest.writeFile("go", "");
      const ended = await until("the job passes", async () => {
        const state = await found!.guest.findJob("job-1");
        return state?.status === "running" ? null : state;
      });
      expect(ended.status).toBe("passed");
    });

    it("leaves nothing of a job that was cancelled, escapees included", async () => {
      const { guest } = await driver.ensure(specOf("proj_a"));
      const word = `escapee-${process.pid}-${Date.now()}`;
      await guest.startJob(
        "job-1",
        scriptJob(`setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' ${word} & touch up; sleep 100`),
      );
      await until("the escapee runs", async () => (await guest.stat("up")) !== null && processesWith(word).length > 0);
      const ended = await guest.cancelJob("job-1", { reason: "test", graceMs: 100 });
      expect(ended.status).toBe("cancelled");
      expect(processesWith(word)).toEqual([]);
    });

    it("leaves no process after a stop, and stops twice", async () => {
      const { guest } = await driver.ensure(specOf("proj_a"));
      const word = `survivor-${process.pid}-${Date.now()}`;
      await guest.startJob(
        "job-1",
        scriptJob(`setsid sh -c 'while :; do sleep 0.1; done' ${word} & touch up; sleep 100`),
      );
      await until("the job runs", () => guest.stat("up"));
      await driver.stop("proj_a" as ProjectId);
      expect([...processesWith(word), ...processesWith(dataDir)]).toEqual([]);
      await driver.stop("proj_a" as ProjectId);
      expect(await driver.list()).toMatchObject([{ projectId: "proj_a", sandboxId: "sbx_proj_a", state: "stopped" }]);
    });

    it("starts a new sandbox after the old one was killed, and ends what that left", async () => {
      const { guest, bootId } = await driver.ensure(specOf("proj_a"));
      const word = `orphan-${process.pid}-${Date.now()}`;
      await guest.startJob(
        "job-1",
        scriptJob(`setsid sh -c 'while :; do sleep 0.1; done' ${word} & touch up; sleep 100`),
      );
      await until("the job runs", () => guest.stat("up"));
      await killSandbox(dataDir, "proj_a");
      const again = await driver.ensure(specOf("proj_a"));
      expect(again.bootId).not.toBe(bootId);
      expect(processesWith(word)).toEqual([]);
      expect((await again.guest.findJob("job-1"))?.status).toBe("lost");
    });

    it("ends at a stop what a sandbox that was killed has left", async () => {
      const { guest } = await driver.ensure(specOf("proj_a"));
      const word = `orphan-${process.pid}-${Date.now()}`;
      await guest.startJob(
        "job-1",
        scriptJob(`setsid sh -c 'while :; do sleep 0.1; done' ${word} & touch up; sleep 100`),
      );
      await until("the job runs", () => guest.stat("up"));
      await killSandbox(dataDir, "proj_a");
      await driver.stop("proj_a" as ProjectId);
      expect([...processesWith(word), ...processesWith(dataDir)]).toEqual([]);
    });

    it("ends what a process that was killed while it started a sandbox has left, and starts anew", async () => {
      await driver.ensure(specOf("proj_a"));
      const record = readRecord(join(dataDir, "sandboxes/proj_a"))!;
      await driver.stop("proj_a" as ProjectId);
      writeRecord(join(dataDir, "sandboxes/proj_a"), { ...record, state: "starting", pid: null, pidStart: null });
      const half = spawn("sh", ["-c", "sleep 100; true", "half-started", ...markOf(options, "proj_a" as ProjectId)]);
      const ended = new Promise((resolve) => half.on("exit", (_, signal) => resolve(signal)));
      await driver.ensure(specOf("proj_a"));
      expect(await ended).toBe("SIGKILL");
    });

    it("starts anew for another network when idle, and refuses while a job is active", async () => {
      const { guest, bootId } = await driver.ensure(specOf("proj_a", "none"));
      await guest.startJob("job-1", scriptJob("sleep 100"));
      await expect(driver.ensure(specOf("proj_a", "open"))).rejects.toMatchObject({ code: "conflict" });
      await guest.cancelJob("job-1", { reason: "test", graceMs: 0 });
      const open = await driver.ensure(specOf("proj_a", "open"));
      expect(open.bootId).not.toBe(bootId);
    });

    it("keeps the volume of a removed sandbox unless asked, and removes what jobs made read-only", async () => {
      const { guest } = await driver.ensure(specOf("proj_a"));
      await shell(
        guest,
        "mkdir -p mod/deep && echo 1 >mod/deep/file && ln -s / mod/link && chmod 444 mod/deep/file && chmod 555 mod/deep mod",
      );
      await driver.remove("proj_a" as ProjectId, { volume: false });
      expect(await driver.list()).toMatchObject([
        { projectId: "proj_a", sandboxId: null, state: "removed", volumePath: join(dataDir, "volumes/proj_a") },
      ]);
      const again = await driver.ensure(specOf("proj_a"));
      expect((await again.guest.readFile("mod/deep/file"))?.toString()).toBe("1\n");
      await driver.remove("proj_a" as ProjectId, { volume: true });
      expect(readdirSync(join(dataDir, "volumes"))).toEqual([]);
      await driver.remove("proj_a" as ProjectId, { volume: true });
    });

    it("says how much a volume takes", async () => {
      const { guest } = await driver.ensure(specOf("proj_a"));
      await guest.writeFile("big", Buffer.alloc(300_000, 1));
      const [info] = await driver.list();
      expect(info).toMatchObject({ state: "running", volumePath: join(dataDir, "volumes/proj_a") });
      expect(info!.diskBytes).toBeGreaterThan(300_000);
    });

    it("works in a deep folder with spaces below one that only its owner may pass", async () => {
      const closed = join(dataDir, "closed home");
      mkdirSync(closed, { mode: 0o700 });
      const { driver: deep } = maker.make(join(closed, ...Array(8).fill("a folder with spaces")));
      const { guest } = await deep.ensure(specOf("proj_a"));
      expect(await shell(guest, "echo fine > file && cat file")).toMatchObject({ stdout: "fine\n", exitCode: 0 });
      await deep.remove("proj_a" as ProjectId, { volume: true });
    });
  });
}
