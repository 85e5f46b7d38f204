import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import {
  ended,
  eventually,
  type GuestFixture,
  type IsolationName,
  job,
  outcome,
  outputOf,
  processesSaying,
  run,
  shell,
  sleepToken,
  stage,
  startGuest,
  until,
} from "./guest-fixture.ts";

describe.runIf(requires("bubblewrap"))("jobs of a guest with bubblewrap", () => suite("bubblewrap"));
describe("jobs of a guest with sweeps", () => suite("sweep"));

function suite(isolation: IsolationName): void {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation });
  });
  afterAll(async () => guest.stop());
  const errorOf = async (key: string, ...stages: Parameters<typeof job>): Promise<string> =>
    (await run(guest.client, key, ...stages)).stages.map((each) => each.error).join("|");

  it("runs stages in order and says where each one's output is", async () => {
    const state = await run(
      guest.client,
      "order",
      shell("echo one; cat; echo $GREETING >&2", { name: "first", stdin: "typed\n", env: { GREETING: "hello" } }),
      shell("echo two", { name: "second" }),
    );
    expect(state.status).toBe("passed");
    expect(state.stages.map((each) => [each.status, each.exitCode])).toEqual([
      ["passed", 0],
      ["passed", 0],
    ]);
    const text = await outputOf(guest.client, "order");
    expect(text).toBe("one\ntyped\nhello\ntwo\n");
    const [first, second] = state.stages;
    expect(text.slice(first?.outputStart ?? -1, first?.outputEnd ?? -1)).toBe("one\ntyped\nhello\n");
    expect(text.slice(second?.outputStart ?? -1, second?.outputEnd ?? -1)).toBe("two\n");
  });

  it("keeps the order in which a program wrote to its two streams, and lets it open them by name", async () => {
    await run(
      guest.client,
      "streams",
      shell("for i in 1 2 3; do echo o$i; echo e$i > /dev/stderr; done; cat /dev/stdin", { stdin: "in" }),
    );
    expect(await outputOf(guest.client, "streams")).toBe("o1\ne1\no2\ne2\no3\ne3\nin");
  });

  it("returns the same job for the same key and never runs it twice", async () => {
    const spec = job(shell("echo ran >> once.txt"));
    await Promise.all([guest.client.startJob("once", spec), guest.client.startJob("once", spec)]);
    await outcome(guest.client, "once");
    expect((await guest.client.startJob("once", spec)).status).toBe("passed");
    expect(readFileSync(join(guest.root, "once.txt"), "utf8")).toBe("ran\n");
  });

  it("stops after a failure, except for stages that always run or that may fail", async () => {
    const state = await run(
      guest.client,
      "failures",
      shell("exit 4", { name: "may-fail", continueOnFailure: true }),
      shell("exit 3", { name: "fails" }),
      shell("echo never", { name: "skipped" }),
      shell("echo cleaned", { name: "clean-up", always: true }),
    );
    expect(state.status).toBe("failed");
    expect(state.stages.map((each) => `${each.name} ${each.status} ${each.exitCode}`)).toEqual([
      "may-fail failed 4",
      "fails failed 3",
      "skipped skipped null",
      "clean-up passed 0",
    ]);
    expect(await outputOf(guest.client, "failures")).toBe("cleaned\n");
  });

  it("reports 127 for a missing command, 126 for one that cannot be executed, and names the signal", async () => {
    writeFileSync(join(guest.root, "data.txt"), "no program", { mode: 0o644 });
    const states = await Promise.all([
      run(guest.client, "code-127", stage({ argv: ["no-such-command"] })),
      run(guest.client, "code-126", stage({ argv: ["./data.txt"] })),
      run(guest.client, "code-signal", shell("kill -SEGV $$")),
      run(guest.client, "code-shell", shell("no-such-command")),
    ]);
    const stages = states.map((state) => state.stages[0]);
    expect(stages.map((each) => each?.exitCode)).toEqual([127, 126, 139, 127]);
    expect(stages[0]?.error).toBe("no-such-command: command not found");
    expect(stages[2]?.signal).toBe("SIGSEGV");
  });

  it("fails a stage whose folder does not exist, with the reason", async () => {
    expect(await errorOf("no-folder", shell("true", { cwd: "nowhere" }))).toMatch(/nowhere/);
    expect(await errorOf("outside", shell("true", { cwd: "../.." }))).toMatch(/leads out of the volume/);
  });

  it("leaves nothing of a stage that ended, however its children tried to escape", async () => {
    const tokens = [sleepToken(), sleepToken(), sleepToken()];
    const escapes = `nohup sleep ${tokens[0]} & setsid sleep ${tokens[1]} & (setsid sh -c '(sleep ${tokens[2]} &)' &) ; true`;
    const state = await run(guest.client, "leftovers", shell(escapes));
    expect(state.status).toBe("passed");
    expect(tokens.flatMap(processesSaying)).toEqual([]);
  });

  it("ends a stage that takes too long, with all its processes", async () => {
    const tokens = [sleepToken(), sleepToken()];
    const state = await run(
      guest.client,
      "late",
      shell(`setsid sleep ${tokens[0]} & sleep ${tokens[1]}`, { timeoutMs: 300 }),
    );
    expect(state.stages[0]).toMatchObject({ status: "failed", timedOut: true });
    expect(tokens.flatMap(processesSaying)).toEqual([]);
  });

  it("cancels with SIGTERM first, so that a program can finish its output", async () => {
    await guest.client.startJob(
      "polite",
      job(shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")),
    );
    await eventually(async () => (await guest.client.findJob("polite"))?.outputBytes === 3, "the program is up");
    const state = await guest.client.cancelJob("polite", { reason: "enough", graceMs: 20_000 });
    expect(state).toMatchObject({ status: "cancelled", cancelReason: "enough" });
    expect(await outputOf(guest.client, "polite")).toMatch(/^up\n.*bye\n$/s);
  });

  it("kills a program that ignores SIGTERM after its grace period, escapees included", async () => {
    const tokens = [sleepToken(), sleepToken()];
    const deaf = `trap '' TERM; setsid sleep ${tokens[0]} & echo up; while :; do sleep ${tokens[1]}; done`;
    await guest.client.startJob("deaf", job(shell(deaf), shell("echo never", { name: "next", always: true })));
    await eventually(async () => (await guest.client.findJob("deaf"))?.outputBytes === 3, "the program is up");
    const state = await guest.client.cancelJob("deaf", { reason: "enough", graceMs: 100 });
    expect(state.stages.map((each) => each.status)).toEqual(["failed", "skipped"]);
    expect(tokens.flatMap(processesSaying)).toEqual([]);
  });

  it("never starts a key that was cancelled before it was seen", async () => {
    await guest.client.cancelJob("early", { reason: "changed my mind", graceMs: 0 });
    const state = await guest.client.startJob("early", job(shell("echo ran > early.txt")));
    expect(state).toMatchObject({ status: "cancelled", cancelReason: "changed my mind" });
    expect(await guest.client.stat("early.txt")).toBeNull();
  });

  it("waits for background stages to be ready and ends them with the job", async () => {
    const token = sleepToken();
    const state = await run(
      guest.client,
      "service",
      shell(`sleep 0.3; touch service-up; sleep ${token}`, {
        name: "service",
        background: true,
        ready: { argv: ["test", "-e", "service-up"] },
      }),
      shell("test -e service-up", { name: "uses-it" }),
    );
    expect(state.stages.map((each) => `${each.name} ${each.status}`)).toEqual(["service passed", "uses-it passed"]);
    expect(state.status).toBe("passed");
    expect(processesSaying(token)).toEqual([]);
  });

  it("fails the job by name when a background stage ends before it, and ends the stage that runs", async () => {
    const token = sleepToken();
    const state = await run(
      guest.client,
      "dying",
      shell("sleep 0.2; exit 9", { name: "db", background: true }),
      shell(`sleep ${token}`, { name: "uses-it" }),
    );
    expect(state.status).toBe("failed");
    expect(state.stages[0]).toMatchObject({
      status: "failed",
      exitCode: 9,
      error: "db ended before the job did (exit 9)",
    });
    expect(state.stages[1]?.error).toMatch(/the background stage db had ended/);
    expect(processesSaying(token)).toEqual([]);
  });

  it("fails a background stage that does not become ready in time", async () => {
    const never = shell("sleep 60", { name: "slow", background: true, ready: { argv: ["false"] }, timeoutMs: 300 });
    const state = await run(guest.client, "not-ready", never, shell("true", { name: "next" }));
    expect(state.stages[0]?.error).toBe("slow was not ready within 300 ms: its check exited with 1");
    expect(state.stages[1]?.status).toBe("skipped");
  });

  it.each([
    ["answers 500 for ever", "q.url === '/health' ? 500 : 200", "GET /health answered 500"],
    ["does not listen", "", "nothing answers on its port"],
  ])("says of a server that %s what its last answer was", async (name, status, last) => {
    const [port = 0] = await guest.client.allocatePorts(1);
    const server = `require("http").createServer((q, r) => { r.statusCode = ${status}; r.end(); }).listen(${port})`;
    const argv = ["node", "-e", status === "" ? "setInterval(() => 0, 1000)" : server];
    const ready = { http: { port, path: "/health" } };
    const web = stage({ argv, name: "web", background: true, ready, timeoutMs: 2_000 });
    const state = await run(guest.client, `never-${name.length}`, web);
    expect(state.stages[0]?.error).toBe(`web was not ready within 2 s: ${last}`);
  });

  it("keeps a job alive whose last stage is a background one, until it is cancelled", async () => {
    const [port = 0] = await guest.client.allocatePorts(1);
    const server = `require("http").createServer((q, r) => r.end("hi")).listen(${port}, "127.0.0.1")`;
    await guest.client.startJob("preview", {
      ...job(
        shell("true", { name: "build" }),
        stage({ name: "serve", argv: ["node", "-e", server], background: true, ready: { http: { port, path: "/" } } }),
      ),
    });
    const state = await until(guest.client, "preview", (each) => each.stages[1]?.status === "ready");
    expect(state.status).toBe("running");
    expect((await guest.client.cancelJob("preview", { reason: "done", graceMs: 2_000 })).status).toBe("cancelled");
  });

  it("ends a preview's job when the preview dies", async () => {
    const state = await run(guest.client, "dead-preview", shell("exit 5", { name: "serve", background: true }));
    expect(state).toMatchObject({ status: "failed", stages: [{ name: "serve", exitCode: 5 }] });
  });

  it("takes numbered input once and in order, and closes it when asked to", async () => {
    const { client } = guest;
    await client.startJob("typed", job(stage({ argv: ["cat"], openStdin: true })));
    await client.writeStdin("typed", 1, "one ");
    await client.writeStdin("typed", 2, "two ");
    await client.writeStdin("typed", 2, "again ");
    await expect(client.writeStdin("typed", 9, "gap")).rejects.toMatchObject({ code: "conflict" });
    await eventually(async () => (await client.findJob("typed"))?.outputBytes === 8, "the input came back");
    await client.writeStdin("typed", 3, "three", { end: true });
    expect((await outcome(client, "typed")).status).toBe("passed");
    expect(await outputOf(client, "typed")).toBe("one two three");
  });

  it("ignores that a program does not read its input", async () => {
    const { client } = guest;
    const big = "x".repeat(1_000_000);
    expect((await run(client, "unread", shell("exit 0", { stdin: big }))).status).toBe("passed");
    await client.startJob("unread-open", job(shell("exec <&-; sleep 0.3", { openStdin: true })));
    await client.writeStdin("unread-open", 1, big);
    expect((await outcome(client, "unread-open")).status).toBe("passed");
  });

  it("lets readers follow the output while it grows", async () => {
    const { client } = guest;
    await client.startJob("follow", job(shell("echo a; while [ ! -e go ]; do sleep 0.02; done; echo b")));
    const first = await client.readOutput("follow", { offset: 0, limitBytes: 100, waitMs: 20_000 });
    expect(first).toEqual({ data: Buffer.from("a\n"), nextOffset: 2, ended: false });
    const next = client.readOutput("follow", { offset: 2, limitBytes: 100, waitMs: 20_000 });
    await client.writeFile("go", "");
    expect((await next).data.toString()).toBe("b\n");
  });

  it("keeps the beginning and the end of endless output, and neither stalls nor fills the disk", async () => {
    const flood = "echo begin; head -c 200000000 /dev/zero | tr '\\0' x; echo end";
    const state = await run(guest.client, "flood", shell(flood, { outputLimitBytes: 100_000 }));
    expect(state.stages[0]).toMatchObject({ status: "passed", truncated: true });
    const text = await outputOf(guest.client, "flood");
    expect(text.length).toBeLessThan(170_000);
    expect(text.startsWith("begin\nxxx")).toBe(true);
    expect(text.endsWith("xxxend\n")).toBe(true);
    const dropped = Number(/\n\[(\d+) bytes of output dropped here\]\n/.exec(text)?.[1]);
    expect(dropped).toBe(200_000_000 + 10 - 100_000 - 65_536);
  });

  it("starts fifty jobs at once", async () => {
    const keys = Array.from({ length: 50 }, (_, index) => `many-${index}`);
    const states = await Promise.all(keys.map((key) => run(guest.client, key, shell(`echo ${key}`))));
    expect(states.map((state) => state.status)).toEqual(keys.map(() => "passed"));
    expect(await outputOf(guest.client, "many-17")).toBe("many-17\n");
  });

  it("shares temporary files between the stages of a job and removes them with it", async () => {
    const state = await run(
      guest.client,
      "temporary",
      shell("echo secret > $TMPDIR/shared; mkdir $TMPDIR/locked; touch $TMPDIR/locked/x; chmod 0 $TMPDIR/locked", {
        name: "one",
      }),
      shell("cat $TMPDIR/shared; echo $TMPDIR; touch ~/in-home", { name: "two" }),
    );
    expect(state.status).toBe("passed");
    expect(await outputOf(guest.client, "temporary")).toMatch(/^secret\n\//);
    const other = await run(guest.client, "temporary-other", shell("test ! -e $TMPDIR/shared"));
    expect(other.status).toBe("passed");
  });

  it("forgets an ended job, and refuses to forget a running one", async () => {
    const { client } = guest;
    await run(client, "forgotten", shell("echo x"));
    await client.forgetJob("forgotten");
    expect(await client.findJob("forgotten")).toBeNull();
    await client.startJob("busy", job(shell("sleep 60")));
    await expect(client.forgetJob("busy")).rejects.toMatchObject({ code: "conflict" });
    await client.cancelJob("busy", { reason: "test", graceMs: 0 });
  });

  it("refuses an invalid job, naming the field", async () => {
    const { client } = guest;
    await expect(client.startJob("bad", job())).rejects.toThrow(/stages/);
    await expect(client.startJob("bad", job(shell("true"), shell("true")))).rejects.toThrow(/unique names/);
    await expect(client.startJob("bad", { ...job(shell("true")), writable: ["../x"] })).rejects.toMatchObject({
      code: "sandbox-path",
    });
    expect(await client.findJob("bad")).toBeNull();
  });

  it("knows its jobs after it was killed: ended ones as they ended, running ones as lost, with nothing left of them", async () => {
    const first = await startGuest({ isolation });
    const token = sleepToken();
    try {
      await run(first.client, "a/b é", shell("echo kept"));
      await first.client.startJob("running", job(shell(`setsid sleep ${token} & echo up; sleep ${token}`)));
      await eventually(async () => (await first.client.findJob("running"))?.outputBytes === 3, "the job is up");
      await ended(first.process, "SIGKILL");
      const second = await first.restart();
      try {
        await eventually(() => processesSaying(token).length === 0, "the lost job's processes are gone");
        expect((await second.client.findJob("running"))?.status).toBe("lost");
        expect((await second.client.startJob("running", job(shell("echo again >> again.txt")))).status).toBe("lost");
        expect((await second.client.findJob("a/b é"))?.status).toBe("passed");
        expect(await outputOf(second.client, "a/b é")).toBe("kept\n");
        expect(await outputOf(second.client, "running")).toBe("up\n");
      } finally {
        await second.stop();
      }
    } finally {
      await first.stop();
    }
  });

  it("ends its jobs as lost, and itself, on request, on a signal, or when no client is left", async () => {
    for (const way of ["shutdown", "SIGTERM", "silence"] as const) {
      const silent = await startGuest({ isolation, silenceMs: way === "silence" ? 300 : 60_000 });
      const token = sleepToken();
      try {
        await silent.client.startJob("long", job(shell(`setsid sleep ${token} & sleep ${token}`)));
        const gone = new Promise((resolve) => silent.process.once("exit", resolve));
        if (way === "shutdown") await silent.client.shutdown();
        if (way === "SIGTERM") silent.process.kill("SIGTERM");
        expect(await gone).toBe(0);
        expect(processesSaying(token)).toEqual([]);
        const next = await silent.restart();
        expect((await next.client.findJob("long"))?.status).toBe("lost");
        await next.stop();
      } finally {
        await silent.stop();
      }
    }
  });
}
