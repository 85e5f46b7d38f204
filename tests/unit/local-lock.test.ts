import { spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { withLock } from "../../src/sandbox/host/lock.ts";

const module = join(import.meta.dirname, "../../src/sandbox/host/lock.ts");
const root = join(import.meta.dirname, "../..");

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/**
 * Another process that runs `body` with `withLock`, `folder` and `appendFileSync` available, and
 * prints lines.
 */
function another(body: string) {
  const script = `import { withLock } from ${JSON.stringify(module)};
    import { appendFileSync } from "node:fs";
    const folder = ${JSON.stringify(folder)};
    ${body}`;
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: root,
  });
  const lines = createInterface({ input: child.stdout });
  const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { child, closed, line: new Promise<string>((resolve) => lines.once("line", resolve)) };
}

describe("the lock between processes", () => {
  it("returns the result of its body, and is released when the body fails", async () => {
    await expect(withLock(folder, 1000, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await withLock(folder, 1000, async () => 7)).toBe(7);
  });

  it("is held by one at a time within one process, too", async () => {
    const seen: string[] = [];
    const body = (name: string) => async () => {
      seen.push(`${name} in`);
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(`${name} out`);
    };
    await Promise.all(["a", "b", "c"].map((name) => withLock(folder, 10_000, body(name))));
    for (let index = 0; index < 6; index += 2) expect(seen[index + 1]).toBe(seen[index]!.replace("in", "out"));
  });

  it("is held by one at a time among processes that are killed while they hold it", async () => {
    const log = join(folder, "../", `${folder.split("/").pop()}.log`);
    writeFileSync(log, "");
    const body = (lastRound: number) => `for (let round = 0; round < 25; round += 1) {
      await withLock(folder, 60_000, async () => {
        appendFileSync(${JSON.stringify(log)}, "in " + process.pid + "\\n");
        await new Promise((resolve) => setTimeout(resolve, 1));
        if (round === ${lastRound}) process.kill(process.pid, "SIGKILL");
        appendFileSync(${JSON.stringify(log)}, "out " + process.pid + "\\n");
      });
    }`;
    await Promise.all([3, 8, 13, 99].map((lastRound) => another(body(lastRound)).closed));
    const lines = readFileSync(log, "utf8").trim().split("\n");
    rmSync(log);
    // A holder finds no other living holder: the one before came out, or never will.
    for (const [index, line] of lines.entries()) {
      if (!line.startsWith("out")) continue;
      expect(lines[index - 1]).toBe(line.replace("out", "in"));
    }
    expect(lines).toHaveLength(2 * (3 + 8 + 13 + 25) + 3);
  });

  it("is taken over at once from a holder that was killed", async () => {
    const holder = another(
      `await withLock(folder, 1000, () => { console.log("holds"); return new Promise(() => setInterval(() => 1, 1000)); });`,
    );
    await holder.line;
    await expect(withLock(folder, 50, async () => 1)).rejects.toMatchObject({
      code: "sandbox-unavailable",
      retryable: true,
    });
    holder.child.kill("SIGKILL");
    await holder.closed;
    expect(await withLock(folder, 5000, async () => "taken")).toBe("taken");
  });

  it("does not mistake a process that reuses the holder's id for the holder", async () => {
    const ticket = {
      token: "t",
      held: true,
      pid: process.pid,
      startedAt: "1",
      boot: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
    };
    writeFileSync(join(folder, "4"), JSON.stringify(ticket));
    expect(await withLock(folder, 1000, async () => "taken")).toBe("taken");
  });

  it("leaves one small file however often it was taken", async () => {
    for (let round = 0; round < 5; round += 1)
      await withLock(folder, 1000, async () => appendFileSync("/dev/null", ""));
    expect(readdirSync(folder)).toEqual(["5"]);
  });
});
