import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import { requires } from "../support/require.ts";

// The real command line on its own data directory: real database, sandbox, git and processes.

const root = fileURLToPath(new URL("../..", import.meta.url));
const diamond = join(root, "examples/diamond/plan.yaml");
const driver = requires("bubblewrap") ? "local" : "local-unsafe";
const limitMs = 120_000;

let folder = "";
let data = "";
const children = new Set<ChildProcess>();

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "wavesmith-cli-")));
  data = join(folder, "data");
});
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
});

interface Running {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<number | null>;
}

const start = (...words: string[]): Running => startTyping(words, null);

/** Types this on its standard input, which stays open; null: it has no input. */
function startTyping(words: readonly string[], typed: string | null): Running {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, WAVESMITH_SANDBOX: driver };
  const args = [join(root, "bin/wavesmith.js"), "--data", data, ...words];
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env,
    stdio: [typed === null ? "ignore" : "pipe", "pipe", "pipe"],
  });
  children.add(child);
  if (typed !== null) child.stdin!.write(typed);
  const said = { stdout: "", stderr: "" };
  child.stdout!.on("data", (chunk: Buffer) => (said.stdout += chunk));
  child.stderr!.on("data", (chunk: Buffer) => (said.stderr += chunk));
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      children.delete(child);
      resolve(code);
    });
  });
  return { child, stdout: () => said.stdout, stderr: () => said.stderr, ended };
}

async function run(...words: string[]) {
  const running = start(...words);
  const code = await running.ended;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}

async function until(running: Running, text: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!running.stdout().includes(text)) {
    if (Date.now() > deadline || running.child.exitCode !== null) {
      throw new Error(`it never said ${text}:\n${running.stdout()}\n${running.stderr()}`);
    }
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

function plan(name: string, tasks: Record<string, unknown>[], more: Record<string, unknown> = {}): string {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify({ name, network: "none", tasks, ...more }));
  return path;
}

const buildIdIn = (text: string): string => /bld_\w+/.exec(text)![0];
const objects = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("wavesmith, as a user types it", { timeout: limitMs }, () => {
  let first = "";

  it("builds a plan in plain lines, build id first, and ends with how to fetch the result", async () => {
    const { code, stdout } = await run("build", diamond);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    first = buildIdIn(lines[0]!);
    expect(lines).toContain("wave 2: count (default), sort (default)");
    expect(lines.at(-3)).toMatch(new RegExp(`^build ${first} completed: 3 waves passed, 4 of 4 tasks completed`));
    const head = /^head: ([0-9a-f]{40})$/.exec(lines.at(-2)!)![1]!;
    const [, repository] = /^fetch it: git fetch (\S+) main:wavesmith\/diamond$/.exec(lines.at(-1)!)!;
    const git = (...args: string[]) => execFileSync("git", ["-C", repository!, ...args], { encoding: "utf8" });
    expect(git("rev-parse", "main").trim()).toBe(head);
    expect(git("show", "main:report.txt")).toContain("8 words, 5 of them different:");
    // None of these files shows up in the person's repository as something to commit.
    expect(readFileSync(join(data, ".gitignore"), "utf8")).toBe("*\n");
  });

  it("prints nothing but JSON with --json: started, events, finished", async () => {
    const { code, stdout } = await run("build", diamond, "--json", "--project", "other");
    expect(code).toBe(0);
    const said = objects(stdout);
    expect(said[0]).toMatchObject({ type: "build.started" });
    expect(said.at(-1)).toMatchObject({ type: "build.finished", status: "completed", buildId: said[0]!.buildId });
    const types = said.map((object) => object.type);
    expect(types.filter((type) => type === "project/wave.passed")).toHaveLength(3);
    expect(types.filter((type) => type === "agent/task.completed")).toHaveLength(4);
    expect(types.at(-2)).toBe("project/build.completed");
    for (const event of said.slice(1, -1)) {
      expect(event).toMatchObject({ at: expect.any(String), buildId: said[0]!.buildId });
    }
  });

  it("shows a build afterwards: status, builds, logs, and its end again with resume", async () => {
    expect((await run("status", first)).stdout).toContain("words (default): completed");
    expect(objects((await run("builds", "--json")).stdout)[0]).toMatchObject({ builds: [{}, { id: first }] });
    expect(await run("logs", first, "--task", "nope")).toMatchObject({ code: 2 });
    const again = await run("resume", first.slice(0, 12));
    expect(again.code).toBe(0);
    expect(again.stdout).toContain(`build ${first} completed`);
    expect(await run("status", "bld_nope")).toMatchObject({ code: 2 });
  });

  it("exits with 1 and prints everything needed to continue when a task fails", async () => {
    const path = plan("failing", [
      { id: "bad", run: "echo before; echo broken at lib/x.js:7 >&2; exit 3", retries: 0 },
    ]);
    const { code, stdout } = await run("build", path);
    expect(code).toBe(1);
    const id = buildIdIn(stdout);
    expect(stdout).toContain("task bad failed: run exited with 3");
    expect(stdout).toContain("  │ broken at lib/x.js:7\n  at lib/x.js:7\n");
    expect(stdout.trimEnd().split("\n").at(-1)).toBe(`next: wavesmith retry ${id} --data ${data}`);
  });

  it("cancels at one Ctrl-C: agents gone, work kept on a branch, exit 3", async () => {
    const build = start("build", plan("slow", [{ id: "long", run: "echo begun > file.txt; exec sleep 4242" }]));
    await until(build, "long: started");
    build.child.kill("SIGINT");
    expect(await build.ended).toBe(3);
    const id = buildIdIn(build.stdout());
    expect(build.stdout()).toContain(`  wavesmith/${id}/task/long/1\n`);
    expect(sleepers()).toEqual([]);
  });

  it("says that a build was interrupted by kill -9, and continues it to the end", async () => {
    const path = plan("killed", [
      { id: "one", run: "sleep 4; echo one > one.txt" },
      { id: "two", dependsOn: ["one"], run: "cp one.txt two.txt" },
    ]);
    const build = start("build", path);
    await until(build, "one: started");
    build.child.kill("SIGKILL");
    await build.ended;
    const id = buildIdIn(build.stdout());
    expect((await run("status", id)).stdout).toContain(
      `interrupted: no process is driving it. To continue: wavesmith resume ${id}`,
    );
    const resumed = await run("resume", id);
    expect(resumed).toMatchObject({ code: 0 });
    expect(resumed.stdout).toContain("two: done");
  });

  it("lists sandboxes, runs commands in them with their exit codes, and removes them", async () => {
    const listed = objects((await run("sandbox", "ls", "--json")).stdout)[0]!.sandboxes as { state: string }[];
    expect(new Set(listed.map((sandbox) => sandbox.state))).toEqual(new Set(["stopped"]));
    const ran = await run("sandbox", "exec", "diamond", "--", "sh", "-c", "cat count.txt; echo said >&2; exit 7");
    expect(ran).toMatchObject({ code: 7, stdout: "8\n" });
    expect(ran.stderr).toContain("said");
    const typed = start("sandbox", "exec", "diamond", "cat", "-u");
    expect(await typed.ended).toBe(0);
    const words = ["--data", data, "sandbox", "exec", "diamond", "cat", "-u"];
    const given = execFileSync(process.execPath, [join(root, "bin/wavesmith.js"), ...words], {
      input: "typed\n",
      env: { PATH: process.env.PATH, HOME: process.env.HOME },
    });
    expect(given.toString()).toBe("typed\n");
  });

  it("shows the output of a command in a sandbox immediately, byte for byte, and ends it with Ctrl-C", async () => {
    const bytes = randomBytes(300_000);
    const words = ["--data", data, "sandbox", "exec", "diamond", "cat"];
    const env = { PATH: process.env.PATH, HOME: process.env.HOME };
    expect(execFileSync(process.execPath, [join(root, "bin/wavesmith.js"), ...words], { input: bytes, env })).toEqual(
      bytes,
    );
    const token = sleepToken();
    const going = start("sandbox", "exec", "diamond", "--", "sh", "-c", `echo begun; echo aside >&2; sleep ${token}`);
    await until(going, "begun");
    going.child.kill("SIGINT");
    expect(await going.ended).toBe(130);
    expect(going.stdout()).toBe("begun\n");
    expect(processesSaying(`sleep\0${token}`)).toEqual([]);
  });

  it("packs a sandbox's volume, lists what is kept, and puts it back", async () => {
    const taken = await run("sandbox", "snapshot", "diamond", "--json");
    expect(taken).toMatchObject({ code: 0 });
    const { id } = objects(taken.stdout)[0]!.snapshot as { id: string };
    expect((await run("sandbox", "snapshot", "--list")).stdout).toMatch(new RegExp(`diamond +${id} +kept`));
    await run("sandbox", "exec", "diamond", "--", "sh", "-c", "echo spoilt > count.txt");
    expect((await run("sandbox", "restore", "diamond")).stdout).toContain(id);
    const [listed] = objects((await run("sandbox", "ls", "--json")).stdout);
    const sandboxes = listed!.sandboxes as { project: string; id: string }[];
    const { id: sandboxId } = sandboxes.find(({ project }) => project === "diamond")!;
    expect(await run("sandbox", "exec", sandboxId, "cat", "count.txt")).toMatchObject({ code: 0, stdout: "8\n" });
    expect(await run("sandbox", "restore", "diamond", "snap_none")).toMatchObject({ code: 2 });
  });

  it("lists a sandbox removed without its volume, starts it again with all its files, and removes the volume later", async () => {
    const diamonds = async () => {
      const [listed] = objects((await run("sandbox", "ls", "--json")).stdout);
      return (listed!.sandboxes as { project: string; state: string; diskBytes: number | null }[]).filter(
        ({ project }) => project === "diamond",
      );
    };
    const kept = [{ state: "removed, volume kept", diskBytes: expect.any(Number) }];
    expect(await run("sandbox", "rm", "diamond")).toMatchObject({ code: 0 });
    expect(await diamonds()).toMatchObject(kept);
    const started = await run("sandbox", "start", "diamond", "--json");
    expect(started).toMatchObject({ code: 0 });
    expect(objects(started.stdout)).toMatchObject([{ driver, state: "running" }]);
    expect(await diamonds()).toMatchObject([{ state: "running" }]);
    expect(await run("sandbox", "exec", "diamond", "cat", "count.txt")).toMatchObject({ code: 0, stdout: "8\n" });
    expect(await run("sandbox", "rm", "diamond")).toMatchObject({ code: 0 });
    const remedy = expect.stringContaining("sandbox start diamond");
    expect(await run("sandbox", "stop", "diamond")).toMatchObject({ code: 2, stderr: remedy });
    const removed = await run("sandbox", "rm", "diamond", "--volume", "--json");
    expect([removed.code, ...objects(removed.stdout)]).toMatchObject([0, { state: "removed" }]);
    expect(await diamonds()).toEqual([]);
    expect(await run("sandbox", "rm", "diamond", "--volume")).toMatchObject({ code: 2 });
  });

  it("opens a shell in its own tree, after setup, returns its exit code, and leaves no shell behind when it is ended", async () => {
    const prepared = { setup: { run: "echo made > made.txt" }, env: { COLOUR: "red" } };
    const built = await run("build", plan("shelled", [{ id: "a", run: "echo a > a.txt" }], prepared));
    const id = buildIdIn(built.stdout);
    const left = startTyping(["shell", id], "ls; echo $COLOUR; echo changed > a.txt; exit 4\n");
    expect([await left.ended, left.stdout()]).toEqual([4, "a.txt\nmade.txt\nred\n"]);
    const token = sleepToken();
    const going = startTyping(["shell", id], `echo begun; sleep ${token}\n`);
    await until(going, "begun");
    going.child.kill("SIGHUP");
    await going.ended;
    expect(processesSaying(`sleep\0${token}`)).toEqual([]);
    const listed = objects((await run("sandbox", "ls", "--json")).stdout)[0]!.sandboxes as Record<string, unknown>[];
    expect(listed.find(({ project }) => project === "shelled")).toMatchObject({ state: "stopped" });
  });

  it("finds in its doctor that this machine can build", async () => {
    const { code, stdout } = await run("doctor", "--json");
    expect(code).toBe(0);
    expect(objects(stdout)[0]).toMatchObject({ ok: true });
  });
});

/** Our agents on this machine that are still asleep. */
function sleepers(): string[] {
  const listed = execFileSync("ps", ["-eo", "pid,args"], { encoding: "utf8" });
  return listed.split("\n").filter((line) => /\bsleep 4242$/.test(line));
}
