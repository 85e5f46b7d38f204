import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { pack as tarPack } from "tar-stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ProjectId, SandboxId } from "../../src/domain/ids.ts";
import type {
  ArchiveFormat,
  ExecResult,
  GuestClient,
  JobSpec,
  JobState,
  SandboxChange,
  SandboxDriver,
  SandboxSpec,
} from "../../src/sandbox/port.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { usualLimits, usually } from "../support/usual-limits.ts";
import type { DriverChoice, ProcessRequest } from "./sandbox-process.ts";

/** What the suite needs from a driver besides its port. */
export interface DriverHarness {
  /**
   * Creates a driver on a data folder; `choice` tells another process how to create the same one.
   */
  make(dataDir: string): { driver: SandboxDriver; choice: DriverChoice };
  /** Kills a sandbox's first process, as a fault of the machine would; resolves when it is gone. */
  kill(dataDir: string, projectId: ProjectId): Promise<void>;
  /**
   * Leaves a stopped sandbox as a process does that is killed while it starts it; `gone` resolves
   * when that state is gone.
   */
  halfStart(dataDir: string, projectId: ProjectId): Promise<{ gone(): Promise<void> }>;
  /** The path of a project's first volume, as on the port. */
  volumePath(dataDir: string, projectId: ProjectId): string;
  /**
   * Lists what is left of the sandboxes of a data folder, including volumes; empty when all were
   * removed.
   */
  left(dataDir: string): Promise<string[]>;
}

export const specOf = (projectId: string, mode: SandboxSpec["network"]["mode"] = "none"): SandboxSpec => ({
  projectId: projectId as ProjectId,
  sandboxId: `sbx_${projectId}` as SandboxId,
  tenantId: "ten_test",
  network: { mode, hosts: [] },
  limits: usualLimits,
});

/** Runs a shell script in the folder `work` of the sandbox's volume. */
export function shell(guest: GuestClient, script: string): Promise<ExecResult> {
  return guest.exec({
    argv: ["sh", "-c", script],
    cwd: "work",
    env: {},
    writable: ["work"],
    timeoutMs: 30_000,
    maxBytes: 1 << 20,
  });
}

export function scriptJob(script: string): JobSpec {
  const stage = { name: "agent", argv: ["sh", "-c", script], cwd: "work", env: {}, stdin: null };
  return { stages: [{ ...stage, timeoutMs: 120_000, outputLimitBytes: 1 << 20 }], writable: ["work"], labels: {} };
}

/** Polls until `holds` returns something that is neither null nor false. */
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

/** Host processes whose command line contains the word. */
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

interface Answer {
  readonly bootId: string;
  readonly exec: ExecResult | null;
  readonly job: JobState | null;
  readonly problems: readonly unknown[];
}

const program = await bundledProgram("sandbox-process");

/**
 * Another process that does what it is asked; `kill` is kill -9. `prefix` is a command before node,
 * such as setpriv.
 */
export function anotherProcess(
  request: ProcessRequest,
  prefix: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
) {
  const argv = [...prefix, process.execPath, program, JSON.stringify(request)];
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

/**
 * A job that ends only from outside, with a process that has left its group and has `word` in its
 * command line.
 */
const escaping = (word: string): JobSpec =>
  scriptJob(`setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' ${word} & touch up; sleep 100`);

const uniqueWord = (what: string): string => `${what}-${process.pid}-${randomBytes(6).toString("hex")}`;

async function whole(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** An archive with one entry that no honest archive has. */
async function hostileArchive(header: {
  name: string;
  type: "file" | "symlink" | "character-device";
  linkname?: string;
}) {
  const tar = tarPack();
  tar.entry({ name: "harmless" }, "fine");
  tar.entry(header, header.type === "file" ? "out" : "");
  tar.finalize();
  return gzipSync(await whole(tar as unknown as Readable));
}

/**
 * The promises of every driver, on any machine. The harness creates drivers that share the contents
 * of a data folder.
 */
export function describeSandboxDriver(name: string, harness: DriverHarness): void {
  describe(`the sandbox driver ${name}`, () => {
    let dataDir = "";
    let driver: SandboxDriver;
    let choice: DriverChoice;
    // If names belong to the whole machine, other runs have theirs there.
    let projectId: ProjectId;
    beforeEach(() => {
      dataDir = mkdtempSync(join(tmpdir(), "wavesmith-driver-"));
      projectId = `proj_${randomBytes(8).toString("hex")}` as ProjectId;
      ({ driver, choice } = harness.make(dataDir));
    });
    afterEach(async () => {
      for (const sandbox of await driver.list()) await driver.remove(sandbox.projectId, { volume: true });
      expect(await harness.left(dataDir)).toEqual([]);
      rmSync(dataDir, { recursive: true, force: true });
      expect(processesWith(dataDir)).toEqual([]);
    });

    const isContained = () => name !== "local-unsafe";
    const start = (mode: SandboxSpec["network"]["mode"] = "none") => driver.ensure(specOf(projectId, mode));

    it("finds nothing wrong with a machine on which it works", async () => {
      expect(await driver.check()).toEqual([]);
    });

    it("reports what it can promise here", async () => {
      const { network, archives, isolation } = await driver.capabilities();
      expect(network).toContain("open");
      expect(archives).toContain("tar.gz");
      expect(isolation === "none").toBe(!isContained());
      const { wall } = await start();
      const expected = { docker: "users", local: "bubblewrap", "local-unsafe": "none" }[name];
      expect(wall).toEqual({ isolation: expected, runtime: null });
    });

    it("returns the same running sandbox when asked twice, even through another driver object", async () => {
      const first = await start();
      const again = await start();
      const other = await harness.make(dataDir).driver.find(projectId);
      expect([again.bootId, other?.bootId]).toEqual([first.bootId, first.bootId]);
      expect(again.sandboxId).toBe(`sbx_${projectId}`);
    });

    it("starts one sandbox when several processes ask at once", async () => {
      const request: ProcessRequest = { driver: choice, projectId, network: "none" };
      const answers = await Promise.all([1, 2, 3].map(() => anotherProcess(request).answer));
      expect(new Set(answers.map((answer) => answer.bootId)).size).toBe(1);
      expect((await driver.find(projectId))?.bootId).toBe(answers[0]!.bootId);
    });

    it("starts nothing when it only looks", async () => {
      expect(await driver.find(projectId)).toBeNull();
      expect(await driver.usage(projectId)).toBeNull();
      expect(await driver.list()).toEqual([]);
    });

    it("runs commands in the volume with the programs of PATH", async () => {
      const { guest, workspaceRoot } = await start();
      const result = await shell(guest, "pwd && node -p 1+1 && git init -q repo && git --version && hostname");
      expect(result).toMatchObject({ exitCode: 0 });
      expect(result.stdout.split("\n").slice(0, 2)).toEqual([`${workspaceRoot}/work`, "2"]);
    });

    it("passes on no variable of the orchestrator's environment", async () => {
      const env = { ...process.env, PLANTED_TOKEN: "hunter2" };
      const request: ProcessRequest = { driver: choice, projectId, network: "none", exec: ["sh", "-c", "env"] };
      const { exec } = await anotherProcess(request, [], env).answer;
      expect(exec?.stdout).toMatch(/^PATH=/m);
      expect(exec?.stdout).not.toMatch(/PLANTED|hunter2/);
    });

    it("keeps the volume's files across a stop and a start", async () => {
      const { guest, bootId } = await start();
      await guest.writeFile("notes/kept.txt", "kept");
      await driver.stop(projectId);
      expect(await driver.find(projectId)).toBeNull();
      const again = await start();
      expect(again.bootId).not.toBe(bootId);
      expect((await again.guest.readFile("notes/kept.txt"))?.toString()).toBe("kept");
    });

    it("finds the jobs of an orchestrator that was killed", async () => {
      const job = { key: "job-1", spec: scriptJob("until [ -e go ]; do sleep 0.05; done; echo went") };
      const starter = anotherProcess({ driver: choice, projectId, network: "none", job, hang: true });
      expect((await starter.answer).job?.status).toBe("running");
      await starter.kill();
      const found = await driver.find(projectId);
      expect((await found!.guest.findJob("job-1"))?.status).toBe("running");
      await found!.guest.writeFile("work/go", "");
      const ended = await until("the job passes", async () => {
        const state = await found!.guest.findJob("job-1");
        return state?.status === "running" ? null : state;
      });
      expect(ended.status).toBe("passed");
    });

    it("ends a job that is cancelled while its program is being started", async () => {
      const { guest } = await start();
      for (const key of ["early-1", "early-2", "early-3", "early-4", "early-5", "early-6"]) {
        const word = uniqueWord("early");
        await guest.startJob(key, scriptJob(`sleep 100 # ${word}`));
        expect((await guest.cancelJob(key, { reason: "test", graceMs: 0 })).status).toBe("cancelled");
        expect(processesWith(word)).toEqual([]);
      }
    });

    it("ends a job that is cancelled, escapees included, and nothing else of its sandbox", async () => {
      const { guest, bootId } = await start();
      const word = uniqueWord("escapee");
      await guest.startJob("bystander", scriptJob("until [ -e go ]; do sleep 0.05; done"));
      await guest.startJob("job-1", escaping(word));
      await until(
        "the escapee runs",
        async () => (await guest.stat("work/up")) !== null && processesWith(word).length > 0,
      );
      const ended = await guest.cancelJob("job-1", { reason: "test", graceMs: 100 });
      expect(ended.status).toBe("cancelled");
      expect(processesWith(word)).toEqual([]);
      expect((await guest.findJob("bystander"))?.status).toBe("running");
      expect((await driver.find(projectId))?.bootId).toBe(bootId);
    });

    it("leaves nothing of a job that ran out of time, escapees included", async () => {
      const { guest } = await start();
      const word = uniqueWord("late");
      const spec = escaping(word);
      await guest.startJob("job-1", { ...spec, stages: spec.stages.map((stage) => ({ ...stage, timeoutMs: 1_500 })) });
      const ended = await until("the job ends", async () => {
        const state = await guest.findJob("job-1");
        return state?.status === "running" ? null : state;
      });
      expect(ended).toMatchObject({ status: "failed", stages: [{ timedOut: true }] });
      expect(processesWith(word)).toEqual([]);
    });

    it("leaves no process after a stop, and can be stopped twice", async () => {
      const { guest } = await start();
      const word = uniqueWord("survivor");
      await guest.startJob("job-1", escaping(word));
      await until("the job runs", () => guest.stat("work/up"));
      await driver.stop(projectId);
      expect([...processesWith(word), ...processesWith(dataDir)]).toEqual([]);
      await driver.stop(projectId);
      expect(await driver.list()).toMatchObject([{ projectId, sandboxId: `sbx_${projectId}`, state: "stopped" }]);
    });

    it("starts a new sandbox after the old one was killed, and ends the old one's leftovers", async () => {
      const { guest, bootId } = await start();
      const word = uniqueWord("orphan");
      await guest.startJob("job-1", escaping(word));
      await until("the job runs", () => guest.stat("work/up"));
      await harness.kill(dataDir, projectId);
      const again = await start();
      expect(again.bootId).not.toBe(bootId);
      expect(processesWith(word)).toEqual([]);
      expect((await again.guest.findJob("job-1"))?.status).toBe("lost");
    });

    it("ends the leftovers of a killed sandbox at a stop", async () => {
      const { guest } = await start();
      const word = uniqueWord("orphan");
      await guest.startJob("job-1", escaping(word));
      await until("the job runs", () => guest.stat("work/up"));
      await harness.kill(dataDir, projectId);
      await driver.stop(projectId);
      expect([...processesWith(word), ...processesWith(dataDir)]).toEqual([]);
    });

    it("ends the leftovers of a process that was killed while it started a sandbox, and starts again", async () => {
      await start();
      await driver.stop(projectId);
      const half = await harness.halfStart(dataDir, projectId);
      const { guest } = await start();
      await half.gone();
      expect((await shell(guest, "echo up")).stdout).toBe("up\n");
    });

    it("starts again for another network when idle, and refuses while a job is active", async () => {
      const { guest, bootId } = await start("none");
      await guest.startJob("job-1", scriptJob("sleep 100"));
      await expect(start("open")).rejects.toMatchObject({ code: "conflict" });
      await guest.cancelJob("job-1", { reason: "test", graceMs: 0 });
      const open = await until("it is idle", () =>
        // Its activity may be a second out of date.
        start("open").catch((error: { code?: string }) => (error.code === "conflict" ? null : Promise.reject(error))),
      );
      expect(open.bootId).not.toBe(bootId);
    });

    it("keeps the volume of a removed sandbox unless asked, and removes read-only files of jobs", async () => {
      const { guest } = await start();
      await shell(
        guest,
        "mkdir -p mod/deep && echo 1 >mod/deep/file && ln -s / mod/link && chmod 444 mod/deep/file && chmod 555 mod/deep mod",
      );
      await driver.remove(projectId, { volume: false });
      const volumePath = harness.volumePath(dataDir, projectId);
      expect(await driver.list()).toMatchObject([{ projectId, sandboxId: null, state: "removed", volumePath }]);
      const again = await start();
      expect((await again.guest.readFile("work/mod/deep/file"))?.toString()).toBe("1\n");
      await driver.remove(projectId, { volume: true });
      expect(await driver.list()).toEqual([]);
      expect(await harness.left(dataDir)).toEqual([]);
      await driver.remove(projectId, { volume: true });
    });

    it("removes folders nested deeper than a path can name, and starts again", async () => {
      const { guest } = await start();
      const folders = ["/tmp", "/dev/shm"].filter(() => isContained());
      const nest = `for (const folder of ${JSON.stringify(["", ...folders])}) {
  process.chdir(folder || process.env.WAVESMITH_HERE);
  for (let depth = 0; depth < 400; depth += 1) {
    require("fs").mkdirSync("deep".repeat(50));
    process.chdir("deep".repeat(50));
  }
}`;
      const job = scriptJob(`WAVESMITH_HERE=$PWD node -e '${nest}'`);
      await guest.startJob("deep", {
        ...job,
        writable: ["trees/deep"],
        stages: job.stages.map((one) => ({ ...one, cwd: "trees/deep" })),
      });
      await until("the job passes", async () => (await guest.findJob("deep"))?.status === "passed");
      for (const folder of folders) expect((await shell(guest, `ls ${folder}`)).stdout).not.toContain("deep");
      await guest.remove("trees/deep", { recursive: true });
      expect(await guest.stat("trees/deep")).toBeNull();
      await driver.stop(projectId);
      expect((await shell((await start()).guest, "echo up")).stdout).toBe("up\n");
    });

    it("reports the size of a volume, and the usage of a sandbox", async () => {
      const { guest } = await start();
      await guest.writeFile("big", Buffer.alloc(300_000, 1));
      const [info] = await driver.list();
      expect(info).toMatchObject({ state: "running", volumePath: harness.volumePath(dataDir, projectId) });
      expect(info!.diskBytes).toBeGreaterThan(300_000);
      const usage = await driver.usage(projectId);
      expect(usage!.diskBytes).toBeGreaterThan(300_000);
      expect(await driver.volumeBytes(projectId, 60_000)).toBeGreaterThan(300_000);
      const tebibyte = 1024 ** 4;
      expect(await shell(guest, "truncate -s 1T sparse")).toMatchObject({ exitCode: 0 });
      expect(await driver.volumeBytes(projectId, 60_000), "holes count").toBeGreaterThan(tebibyte);
      expect((await driver.usage(projectId))!.diskBytes).toBeLessThan(tebibyte);
      // Where the kernel does not check, something else must, and it must be reported that way.
      expect((await driver.capabilities()).disk).toMatch(/^(hard|watched)$/);
      expect(usage!.processes).toBeGreaterThan(0);
      expect(usage!.memoryBytes).toBeGreaterThan(1_000_000);
      expect(usage!.cpus).toBeGreaterThanOrEqual(0);
      await driver.stop(projectId);
      expect(await driver.usage(projectId)).toBeNull();
      const [stopped] = await driver.list();
      expect(stopped).toMatchObject({ state: "stopped", diskBytes: expect.any(Number) });
      expect(stopped!.diskBytes).toBeGreaterThan(300_000);
      expect(Date.parse(stopped!.diskCountedAt ?? new Date().toISOString())).toBeLessThanOrEqual(Date.now());
    });

    it("reports events of its sandboxes", async () => {
      const over = new AbortController();
      const seen: SandboxChange[] = [];
      const watching = (async () => {
        for await (const change of driver.watch(over.signal)) seen.push(change);
      })();
      const has = (change: SandboxChange["change"]) =>
        seen.some((one) => one.projectId === projectId && one.change === change);
      try {
        await start();
        await until("the start is reported", () => has("started"));
        await harness.kill(dataDir, projectId);
        await until("the end is reported", () => has("ended"));
      } finally {
        over.abort();
        await watching;
      }
    });

    const fill = `mkdir -p "a b/c" .hidden && printf 'x%.0s' $(seq 1000) > "a b/c/file" && echo '#!/bin/sh' > run && chmod 755 run &&
      ln -s c/file "a b/inner" && echo 1 > .hidden/one && chmod 600 .hidden/one && head -c 3000000 /dev/urandom > big`;
    const listing = `find . -name .guest -prune -o '(' -type f -o -type l ')' -printf '%P %m %l\n' | sort && find . -name .guest -prune -o -type f -print0 | sort -z | xargs -0 sha256sum`;

    it.each<ArchiveFormat>(["tar.zst", "tar.gz"])("gives back with a %s what was on the volume", async (format) => {
      if (!(await driver.capabilities()).archives.includes(format)) return;
      const { guest, bootId } = await start();
      expect(await shell(guest, fill)).toMatchObject({ exitCode: 0 });
      const { stdout: before } = await shell(guest, listing);
      const archive = await whole(await driver.pack(projectId, format));
      expect((await driver.find(projectId))?.bootId).toBe(bootId);
      await shell(guest, "rm -rf 'a b' run && echo 2 > .hidden/one && touch new");
      await driver.restore(projectId, Readable.from([archive]), usually(format));
      expect(await driver.find(projectId)).toBeNull();
      expect((await shell((await start()).guest, listing)).stdout).toBe(before);
      await driver.stop(projectId);
      const again = await whole(await driver.pack(projectId, format));
      expect(again.length).toBeGreaterThan(3_000_000);
    });

    it("restores a volume more than once, and removes each that was overtaken", async () => {
      const { guest } = await start();
      await guest.writeFile("file", "one");
      const one = await whole(await driver.pack(projectId, "tar.gz"));
      await guest.writeFile("file", "two");
      const two = await whole(await driver.pack(projectId, "tar.gz"));
      for (const [archive, text] of [
        [one, "one"],
        [two, "two"],
        [one, "one"],
      ] as const) {
        await driver.restore(projectId, Readable.from([archive]), usually("tar.gz"));
        expect((await (await start()).guest.readFile("file"))?.toString()).toBe(text);
      }
      expect((await driver.list()).length).toBe(1);
    });

    it("changes nothing if an archive is incomplete, or not an archive", async () => {
      const { guest, bootId } = await start();
      await shell(guest, fill);
      const archive = await whole(await driver.pack(projectId, "tar.gz"));
      for (const broken of [archive.subarray(0, archive.length / 2), Buffer.from("no archive"), Buffer.alloc(0)]) {
        await expect(driver.restore(projectId, Readable.from([broken]), usually("tar.gz"))).rejects.toMatchObject({
          code: "archive",
        });
      }
      const breaking = Readable.from(
        (async function* () {
          yield archive.subarray(0, 100_000);
          throw new Error("the store went away");
        })(),
      );
      await expect(driver.restore(projectId, breaking, usually("tar.gz"))).rejects.toThrow();
      const tooMuch = driver.restore(projectId, Readable.from([archive]), { format: "tar.gz", maxBytes: 1_000_000 });
      await expect(tooMuch).rejects.toMatchObject({ code: "archive" });
      expect((await driver.find(projectId))?.bootId).toBe(bootId);
      expect(await guest.stat("work/a b/c/file")).not.toBeNull();
    });

    it("refuses archives that lead out of the volume", async () => {
      await start();
      const hostile = [
        { name: "../escape", type: "file" },
        { name: "/tmp/escape", type: "file" },
        { name: "link", type: "symlink", linkname: "../../etc" },
        { name: "device", type: "character-device" },
      ] as const;
      for (const header of hostile) {
        const archive = Readable.from([await hostileArchive(header)]);
        await expect(driver.restore(projectId, archive, usually("tar.gz")), header.name).rejects.toMatchObject({
          code: "archive",
        });
      }
      expect(await (await start()).guest.stat("harmless")).toBeNull();
    });

    it("works in a deep folder with spaces below one that only its owner may pass", async () => {
      const closed = join(dataDir, "closed home");
      mkdirSync(closed, { mode: 0o700 });
      const { driver: deep } = harness.make(join(closed, ...Array(8).fill("a folder with spaces")));
      const { guest } = await deep.ensure(specOf(projectId));
      expect(await shell(guest, "echo fine > file && cat file")).toMatchObject({ stdout: "fine\n", exitCode: 0 });
      await deep.remove(projectId, { volume: true });
    });
  });
}
