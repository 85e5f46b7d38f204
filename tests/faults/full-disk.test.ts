import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import { requires } from "../support/require.ts";

// The whole program, with its Postgres, on its own small disk.

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const sizeMiB = 150;

/** Mounts an empty small disk; null if that is not allowed. */
function mountSmallDisk(): string | null {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-full-"));
  const options = ["-t", "tmpfs", "-o", `size=${sizeMiB}m,mode=755`, "tmpfs", folder];
  if (spawnSync("mount", options, { stdio: "ignore" }).status === 0) return folder;
  rmSync(folder, { recursive: true });
  return null;
}

function unmount(folder: string): void {
  spawnSync("umount", ["--lazy", folder], { stdio: "ignore" });
  rmSync(folder, { recursive: true });
}

function mayMount(): boolean {
  const folder = mountSmallDisk();
  if (folder !== null) unmount(folder);
  else console.warn("SKIPPED: a small disk cannot be mounted here (it needs root)");
  return folder !== null;
}

const sandbox = requires("bubblewrap") ? "local" : "local-unsafe";

describe.runIf(mayMount())(
  "a disk that becomes full during a build",
  () => {
    let disk = "";
    let running: ChildProcess | null = null;
    let stopFilling = (): void => undefined;
    beforeEach(() => {
      disk = mountSmallDisk()!;
    });
    afterEach(() => {
      stopFilling();
      running?.kill("SIGKILL");
      for (const pid of processes()) process.kill(pid, "SIGKILL");
      unmount(disk);
    });

    const data = () => join(disk, "data");
    const freeMiB = async () => {
      const { bavail, bsize } = await statfs(disk);
      return (bavail * bsize) / 1_048_576;
    };

    /**
     * The processes in the data directory: sandboxes and Postgres, which have it in their arguments
     * or as working folder.
     */
    const processes = (program = ""): number[] =>
      readdirSync("/proc").flatMap((pid) => {
        if (!/^\d+$/.test(pid)) return [];
        try {
          const words = readFileSync(`/proc/${pid}/cmdline`, "utf8") + readlinkSync(`/proc/${pid}/cwd`);
          return words.includes(data()) && words.includes(program) ? [Number(pid)] : [];
        } catch {
          return []; // it has just ended
        }
      });

    function start(...words: string[]) {
      // The whole disk is smaller than the space that is usually kept free.
      const reserve = { WAVESMITH_SANDBOX_RESERVE_DISK: "0MB" };
      const env = { ...process.env, ...reserve, DATABASE_URL: "", WAVESMITH_SANDBOX: sandbox };
      const child = spawn(process.execPath, [program, "--data", data(), ...words], { env, cwd: disk });
      running = child;
      let text = "";
      const take = (chunk: Buffer): void => {
        text += chunk.toString();
      };
      child.stdout.on("data", take);
      child.stderr.on("data", take);
      const code = new Promise<number | null>((resolve) => child.once("close", resolve));
      const said = async (what: string) => expect.poll(() => text, { timeout: 25_000, interval: 50 }).toContain(what);
      return { child, code, said, text: () => text };
    }

    function plan(tasks: Record<string, unknown>[]): string {
      const file = join(disk, "plan.json");
      writeFileSync(file, JSON.stringify({ name: "small", tasks }));
      return file;
    }
    const pair = () =>
      plan([
        { id: "one", run: "echo 1 > one; sleep 2" },
        { id: "two", dependsOn: ["one"], run: "echo 2 > two" },
      ]);

    /**
     * Fills the disk from outside, and fills it again whenever space is freed, until it is stopped.
     */
    function fill(): void {
      const path = join(disk, "filler");
      const file = openSync(path, "a");
      const block = Buffer.alloc(4096);
      const timer = setInterval(() => {
        try {
          for (;;) writeSync(file, block);
        } catch {
          // full, as intended
        }
      }, 20);
      stopFilling = () => {
        clearInterval(timer);
        closeSync(file);
        rmSync(path);
        stopFilling = () => undefined;
      };
    }

    it("fails the task that fills it, and its space is freed", async () => {
      const file = plan([{ id: "fill", run: "dd if=/dev/urandom of=big.bin bs=1M count=400", retries: 0 }]);
      const build = start("build", file, "--no-wait");
      expect([await build.code, build.text()]).toEqual([1, expect.stringMatching(/fill: failed .*the disk is full/)]);
      expect(build.text()).not.toMatch(/lost|Failed query|bug in Wavesmith/);
      expect(await freeMiB()).toBeGreaterThan(sizeMiB / 3);
      await expect.poll(() => processes(), { timeout: 10_000 }).toEqual([]);
    });

    it("makes the build wait, and continue by itself once there is space", async () => {
      const build = start("build", pair(), "--no-wait");
      await build.said("one: started");
      fill();
      await build.said("the build waits");
      stopFilling();
      expect([await build.code, build.text()]).toEqual([0, expect.stringContaining("completed")]);
      expect(build.text().split("the build waits")).toHaveLength(2);
    });

    it("does not keep SIGTERM from ending every process, and the build can be resumed", async () => {
      const build = start("build", pair(), "--no-wait");
      await build.said("one: started");
      fill();
      await build.said("the build waits");
      const asked = Date.now();
      build.child.kill("SIGTERM");
      expect(await build.code).toBe(4);
      expect(Date.now() - asked).toBeLessThan(15_000);
      expect(build.text()).toMatch(/is full .*the build is interrupted/);
      expect(build.text()).not.toMatch(/Failed query|bug in Wavesmith/);
      // Postgres may take a moment longer than the program.
      expect(processes("bwrap")).toEqual([]);
      stopFilling();
      const id = /build (bld_\w+)/.exec(build.text())![1]!;
      const again = start("resume", id, "--no-wait");
      // If the last of the space was enough to record the cancel, it ends as cancelled.
      expect([0, 3]).toContain(await again.code);
      expect(again.text()).toMatch(/build bld_\w+ (completed|cancelled)/);
      await expect.poll(() => processes(), { timeout: 10_000 }).toEqual([]);
    });

    it("does not keep `serve` from ending at SIGTERM, and the build can be resumed", async () => {
      const token = sleepToken();
      const tasks = [
        { id: "one", run: `echo 1 > one; timeout 2 sleep ${token} || true` },
        { id: "two", dependsOn: ["one"], run: "echo 2 > two" },
      ];
      const plan = { name: "small", tasks };
      const first = start("serve", "--port", "0");
      await ask(first, { name: "project/build.requested", id: "full", data: { plan } });
      await expect.poll(() => processesSaying(token), { timeout: 20_000 }).not.toEqual([]);
      fill();
      await first.said("is full");
      await expect.poll(() => processesSaying(token), { timeout: 20_000 }).toEqual([]);
      first.child.kill("SIGTERM");
      expect([await first.code, first.text()]).toEqual([0, expect.stringContaining("stopping")]);
      expect(first.text()).not.toMatch(/Failed query|bug in Wavesmith/);
      expect(processes("bwrap")).toEqual([]);
      stopFilling();
      const list = start("builds", "--json");
      expect(await list.code).toBe(0);
      const again = start("resume", JSON.parse(list.text()).builds[0].id, "--no-wait");
      expect([await again.code, again.text()]).toEqual([0, expect.stringMatching(/build bld_\w+ completed/)]);
    });

    async function ask(serving: ReturnType<typeof start>, event: object): Promise<void> {
      await serving.said("http://127.0.0.1:");
      const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(serving.text())!;
      const key = readFileSync(join(data(), "serve-key"), "utf8").trim();
      const answer = await fetch(`${url}/e/${key}`, { method: "POST", body: JSON.stringify(event) });
      expect(answer.status).toBe(200);
    }
  },
  60_000,
);
