import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { buildFinished } from "../../src/api/build-result.ts";
import { statusJson } from "../../src/api/build-status.ts";
import { createLineSplitter } from "../../src/cli/builds/log-reader.ts";
import { isWell } from "../../src/cli/commands/doctor.ts";
import { watchInterrupts } from "../../src/cli/interrupts.ts";
import { describeError } from "../../src/cli/output/errors.ts";
import { exitCodeForError, exitCodeOf } from "../../src/cli/output/exit-codes.ts";
import { ago, bytesText, clock, count, duration, harmless, table } from "../../src/cli/output/format.ts";
import { createHints } from "../../src/cli/output/hints.ts";
import { watchPreview } from "../../src/cli/preview/show-preview.ts";
import { statusLines } from "../../src/cli/view/status-lines.ts";
import type { BuildView } from "../../src/coordinator/build/build-view.ts";
import { WavesmithError } from "../../src/domain/errors.ts";
import { shellWord } from "../../src/domain/shell-word.ts";
import { runHere } from "../support/command-line.ts";
import { attempt, gate, moment, view, wave } from "./cli-views.ts";

const run = (...words: string[]) => runHere(words);

describe("the command line", () => {
  it.each([
    [["buidl"], /unknown command 'buidl'\n\(Did you mean build\?\)/],
    [["status", "--jsn"], /unknown option '--jsn'\n\(Did you mean --json\?\)/],
    [["build"], /build needs a plan file, or a brief/],
    [["build", "x.yaml", "--brief", "a shop"], /a build has a plan file or a brief/],
    [["build", "x.yaml", "--yes"], /--yes needs --brief/],
    [["build", "--source", "."], /--source needs --brief/],
    [["build", "x.yaml", "--budget", "usd=5"], /--budget needs --brief/],
    [["build", "x.yaml", "--planner-prompt", "p.md"], /--planner-prompt needs --brief/],
    [["builds", "--server", "nowhere"], /nowhere is not the address of a server/],
    [["builds", "--server", "http://x", "--data", "y"], /--server and --data cannot be used together/],
    [["serve", "--server", "http://x"], /works on a data directory, not on the server http:\/\/x: it starts one/],
    [["backup", "b.tgz", "--server", "http://x"], /works on a data directory.*: a backup holds the keys/],
    [["restore", "b.tgz", "--server", "http://x"], /works on a data directory.*: it makes a new data directory/],
    [["github", "setup", "--server", "http://x"], /works on a data directory.*: it keeps a secret/],
    [["github", "connect", "--server", "http://x"], /works on a data directory.*: it keeps a secret/],
    [["prices", "--server", "http://x"], /works on a data directory.*: prices are a file/],
    [["prices", "update", "--server", "http://x"], /works on a data directory.*: prices are a file/],
    [["agents", "install", "codex", "--server", "http://x"], /works on a data directory.*: it installs a program/],
    [
      ["sandbox", "image", "build", "--server", "http://x"],
      /works on a data directory.*: it builds with this machine's Docker/,
    ],
    [["builds", "--sandbox", "moon"], /there is no sandbox driver moon/],
    [["builds", "--engine", "steam"], /steam/],
    [["answer"], /missing required argument 'build'\n.*wavesmith answer --help/],
    [["plan"], /missing required argument 'plan'\n.*wavesmith plan --help/],
    [["sandbox", "start"], /missing required argument 'project'\n.*wavesmith sandbox start --help/],
  ])("refuses %j with exit 2 and says why", async (words, why) => {
    const { code, stdout, stderr } = await run(...words);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(why);
  });

  it("shows its help on standard output with exit 0, and on standard error with exit 2 when no command was given", async () => {
    expect(await run("--help")).toMatchObject({ code: 0, stderr: "" });
    expect((await run("logs", "--help")).stdout).toContain("--data <dir>");
    expect(await run()).toMatchObject({ code: 2, stdout: "" });
  });

  it("takes global options before and after the command", async () => {
    const before = await run("--data", "/nowhere/at-all", "builds", "--json");
    const after = await run("builds", "--json", "--data", "/nowhere/at-all");
    expect(before).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(before.stdout)).toMatchObject({ builds: [], more: false });
    expect(after).toEqual(before);
  });

  it("prints waves, critical path and faults of a plan as JSON", async () => {
    const { code, stdout } = await run("plan", "examples/diamond/plan.yaml", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      waves: [
        { number: 1, tasks: ["words"] },
        { number: 2, tasks: ["count", "sort"] },
        { number: 3, tasks: ["report"] },
      ],
      criticalPath: ["words", "count", "report"],
      faults: [],
    });
  });

  it("prints plan faults together with every other reason for which `build` would refuse", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-cli-"));
    try {
      const plan = { name: "far", deliver: { base: "main" }, tasks: [{ id: "a", run: "true" }] };
      writeFileSync(join(folder, "plan.json"), JSON.stringify(plan));
      const { code, stdout } = await run("plan", join(folder, "plan.json"), "--json");
      expect([code, JSON.parse(stdout)]).toMatchObject([0, { faults: [], refused: [{ path: "deliver.base" }] }]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("removes from a plan's texts whatever would move the cursor", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-cli-"));
    try {
      writeFileSync(join(folder, "plan.json"), JSON.stringify({ name: "far", "\u001b[2J": 1, tasks: [] }));
      const { stdout } = await run("plan", join(folder, "plan.json"));
      expect(stdout).toContain("Unknown key");
      expect(stdout).not.toContain("\u001b");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("shows the waves of a plan whose secrets have no value, names them, and ends with exit 2", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-cli-"));
    const file = join(folder, "plan.yaml");
    writeFileSync(file, 'name: p\nsecrets: [NOT_SET_ANYWHERE]\ntasks:\n  - { id: a, run: "true" }\n');
    try {
      const shown = await run("plan", file);
      expect(shown.code).toBe(2);
      expect(shown.stdout).toMatch(/wave 1 {2}a[\s\S]*NOT_SET_ANYWHERE has no value/);
      const { code, stdout } = await run("plan", file, "--json");
      expect(code).toBe(2);
      expect(JSON.parse(stdout)).toMatchObject({
        waves: [{ number: 1, tasks: ["a"] }],
        faults: [{ code: "missing-secret" }],
      });
      expect(await run("build", file)).toMatchObject({ code: 2, stdout: "" });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("ends with exit 2 and the faults when a plan cannot be read", async () => {
    const { code, stdout } = await run("plan", "no-such-plan.yaml", "--json");
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ waves: [], criticalPath: [], faults: [{ code: "missing-file" }] });
    expect(await run("build", "no-such-plan.yaml")).toMatchObject({ code: 2, stdout: "" });
  });
});

describe("exit codes", () => {
  it("follow the contract", () => {
    expect(["completed", "failed", "cancelled", "waiting"].map((status) => exitCodeOf(status as never))).toEqual([
      0, 1, 3, 5,
    ]);
    const of = (code: string) => exitCodeForError(new WavesmithError(code as never, "x"));
    expect(["plan-invalid", "usage", "unsupported", "not-found"].map(of)).toEqual([2, 2, 2, 2]);
    expect(["environment", "database", "sandbox-unavailable"].map(of)).toEqual([4, 4, 4]);
    expect(["git", "internal", "conflict"].map(of)).toEqual([1, 1, 1]);
    expect(exitCodeForError(new Error("x"))).toBe(1);
  });

  it("of doctor: what is needed works, and one sandbox driver", () => {
    const check = (name: string, ok: boolean, needed: boolean) => ({ name, ok, needed, detail: "", remedy: null });
    const node = check("node", true, true);
    expect(isWell([node, check("sandbox local", false, false), check("sandbox local-unsafe", true, false)])).toBe(true);
    expect(isWell([node, check("sandbox local", false, false)])).toBe(false);
    expect(isWell([check("git", false, true), check("sandbox local", true, false)])).toBe(false);
  });
});

describe("errors and hints", () => {
  const hints = createHints({ environment: {}, data: "my data" });

  it("are one line and a remedy, with commands as the user would type them; a stack only when asked for", () => {
    const error = new WavesmithError("conflict", "it is running", { remedy: "wavesmith resume bld_1" });
    expect(describeError(error, { verbose: false, hints })).toBe(
      "wavesmith: it is running\n  remedy: wavesmith resume bld_1 --data 'my data'",
    );
    expect(describeError(error, { verbose: true, hints })).toContain("WavesmithError: it is running\n    at ");
  });

  it("name the data directory once, and npm's form of a command for people who use npm", () => {
    expect(hints.rewrite(hints.command("retry bld_1"))).toBe("wavesmith retry bld_1 --data 'my data'");
    const npm = createHints({ environment: { npm_lifecycle_event: "demo" } });
    expect(npm.command("retry bld_1")).toBe("npm run wavesmith -- retry bld_1");
    expect(npm.rewrite("wavesmith resume bld_1, or: wavesmith cancel bld_2")).toBe(
      "npm run wavesmith -- resume bld_1, or: npm run wavesmith -- cancel bld_2",
    );
    expect(npm.rewrite(npm.command("retry bld_1"))).toBe("npm run wavesmith -- retry bld_1");
  });

  it("can be typed unchanged for sandboxes, too: the data directory comes before the command to run", () => {
    expect(hints.rewrite("remove caches: wavesmith sandbox exec shop -- rm -rf ../cache/setup; or raise it")).toBe(
      "remove caches: wavesmith sandbox exec shop --data 'my data' -- rm -rf ../cache/setup; or raise it",
    );
    const npm = createHints({ environment: { npm_lifecycle_event: "wavesmith" } });
    expect(npm.rewrite("see wavesmith sandbox snapshot --list; or: wavesmith serve --engine inngest")).toBe(
      "see npm run wavesmith -- sandbox snapshot --list; or: npm run wavesmith -- serve --engine inngest",
    );
  });

  it("quote words for a shell only where they have to be", () => {
    expect(["a/b-c.git", "two words", "it's"].map(shellWord)).toEqual(["a/b-c.git", "'two words'", "'it'\\''s'"]);
  });
});

describe("Ctrl-C", () => {
  function source() {
    const listeners = new Map<string, () => void>();
    const on = (signal: string, listener: () => void) => listeners.set(signal, listener);
    return { on, off: () => undefined, send: (signal: string) => listeners.get(signal)!() };
  }

  it("counts once when npm passes on what the terminal has already sent, and twice when typed twice", () => {
    let now = 0;
    const signals = source();
    const interrupts = watchInterrupts(signals, () => now);
    const counted: number[] = [];
    interrupts.on((count) => counted.push(count));
    signals.send("SIGINT");
    now = 20;
    signals.send("SIGINT");
    now = 900;
    signals.send("SIGHUP");
    expect(counted).toEqual([1, 2]);
  });

  it("differs from a closed terminal and from a pipe that nobody reads", () => {
    const signals = source();
    const interrupts = watchInterrupts(signals, () => 0);
    signals.send("SIGHUP");
    expect(interrupts.cause).toBe("SIGHUP: its terminal was closed");
    const other = watchInterrupts(source(), () => 0);
    other.raise("a closed pipe");
    other.raise();
    expect(other.cause).toBe("a closed pipe");
  });

  it("counts two presses 300 ms apart", () => {
    let now = 0;
    const signals = source();
    const interrupts = watchInterrupts(signals, () => now);
    for (const at of [0, 299, 300]) {
      now = at;
      signals.send("SIGINT");
    }
    expect(interrupts.count).toBe(2);
  });

  it("is also reported to a listener that registers afterwards", () => {
    const signals = source();
    const interrupts = watchInterrupts(signals);
    signals.send("SIGTERM");
    const counted: number[] = [];
    interrupts.on((count) => counted.push(count));
    expect(counted).toEqual([1]);
  });
});

describe("a build as JSON", () => {
  const conflicted = [{ waveNumber: 1, paths: ["x"], detail: "" }];
  const done = view({
    build: { status: "completed", endedAt: moment(30), headSha: "e".repeat(40) },
    tasks: {
      db: { status: "completed", waveNumber: 1, attempts: 2 },
      api: { status: "completed", waveNumber: 2, attempts: 2, conflicts: conflicted },
    },
    waves: [
      wave({
        status: "passed",
        headSha: "c".repeat(40),
        taskKeys: ["db", "api"],
        attempts: [attempt({ outcome: "failed" }), attempt({ number: 2 }), attempt({ taskKey: "api" })],
        gates: [gate({ verdict: "failed" }), gate({ round: 2 }), gate({ gate: "critic", verdict: "off" })],
      }),
      wave({
        number: 2,
        status: "passed",
        headSha: "e".repeat(40),
        taskKeys: ["api"],
        attempts: [attempt({ taskKey: "api", number: 2 })],
      }),
    ],
  });

  it("ends with exactly what the contract says", () => {
    expect(buildFinished(done, "/r.git")).toEqual({
      type: "build.finished",
      buildId: "bld_1",
      status: "completed",
      waves: [
        {
          number: 1,
          status: "passed",
          tasks: [
            { id: "db", agent: "database", status: "completed", attempts: 2 },
            { id: "api", agent: "backend", status: "pending", attempts: 1 },
          ],
          gates: [
            { name: "testing", verdict: "passed", rounds: 2 },
            { name: "critic", verdict: "off", rounds: 1 },
          ],
          commit: "c".repeat(40),
        },
        {
          number: 2,
          status: "passed",
          tasks: [{ id: "api", agent: "backend", status: "completed", attempts: 1 }],
          gates: [],
          commit: "e".repeat(40),
        },
      ],
      repository: "/r.git",
      head: "e".repeat(40),
      durationMs: 30_000,
    });
  });

  it("tells a task that conflicted from one that its wave never started", () => {
    const options = {
      interrupted: false,
      ...{ repository: "/r", authority: "/r" },
      hints: createHints({ environment: {} }),
      now: moment(9),
    };
    const lines = statusLines(done, options).map((line) => line.text);
    expect(lines).toContain("  api (backend): conflicted, runs again in a later wave");
    const stopped = view({
      build: { status: "failed", endedAt: moment(30) },
      tasks: {
        db: { status: "failed", waveNumber: 1, attempts: 1, reason: "exit 1" },
        api: { status: "pending", waveNumber: 1 },
      },
      waves: [wave({ status: "failed", taskKeys: ["db", "api"], attempts: [attempt({ outcome: "failed" })] })],
    });
    expect(statusLines(stopped, options).map((line) => line.text)).toContain(
      "  api (backend): not started in this wave",
    );
  });

  it("says of a build that was rolled back, and of a wave that is waiting for approval, what to type next", () => {
    const options = {
      interrupted: false,
      ...{ repository: "/r", authority: "/r" },
      hints: createHints({ environment: {} }),
      now: moment(9),
    };
    const texts = (given: BuildView): string[] => statusLines(given, options).map((line) => line.text);
    const back = view({
      build: { status: "waiting", reason: "rolled back to wave 0" },
      waves: [
        wave({ status: "cancelled", reason: "rolled back to wave 0", attempts: [attempt({})], taskKeys: ["db"] }),
      ],
    });
    expect(texts(back)).toEqual(expect.arrayContaining(["  waiting to be resumed", "next: wavesmith resume bld_1"]));
    expect(texts(back)).toContain("  db (database): rolled back with its wave");
    const asked = view({ build: { status: "waiting" }, waves: [wave({ status: "waiting" })] });
    expect(texts(asked)).toContain("  wave 1 is waiting for approval");
    expect(texts(asked).at(-1)).toContain("next: wavesmith approve bld_1 --resume, or wavesmith reject bld_1");
    const rejected = { status: "blocked", reason: "rejected: no", headSha: "c".repeat(40) } as const;
    const blocked = wave({ ...rejected, rejectedSha: rejected.headSha });
    const last = texts(view({ build: { status: "failed" }, waves: [blocked] })).slice(-3);
    expect(last.join("\n")).toMatch(/next: fix it and push .*\n.*agents\.fixer.*\n.*retry bld_1 --unchanged/);
  });

  it("names the key as what to set before a retry when an agent could not sign in", () => {
    const options = {
      interrupted: false,
      ...{ repository: "/r", authority: "/r" },
      hints: createHints({ environment: {} }),
      now: moment(9),
    };
    const reason = "the agent ended: not signed in: the model failed (401): invalid x-api-key";
    const refused = view({
      build: { status: "failed", endedAt: moment(30) },
      waves: [wave({ status: "failed", taskKeys: ["db"], attempts: [attempt({ outcome: "failed", reason })] })],
    });
    expect(statusLines(refused, options).map(({ text }) => text)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^First set a key for .* wavesmith agents shows which setting it reads\.$/),
        "next: wavesmith retry bld_1",
      ]),
    );
  });

  it.each([
    ["local", { isolation: "bubblewrap", runtime: null }, "sandbox local (bubblewrap for each job), "],
    ["docker", { isolation: "users", runtime: null }, "sandbox docker (container, a user for each job), "],
    [
      "docker",
      { isolation: "users", runtime: "runsc" },
      "sandbox docker (container under runsc, a user for each job), ",
    ],
    ["local-unsafe", { isolation: "none", runtime: null }, "sandbox local-unsafe (no wall), "],
    ["local", null, "sandbox local, "],
  ] as const)("names the wall in force in its status: %s, %j", (sandboxDriver, sandboxWall, text) => {
    const options = {
      interrupted: false,
      ...{ repository: "/r", authority: "/r" },
      hints: createHints({ environment: {} }),
      now: moment(9),
    };
    const given = view({ build: { sandboxDriver }, sandboxWall });
    expect(statusLines(given, options)[1]!.text).toContain(text);
    expect(statusJson(given, options)).toMatchObject({ sandbox: sandboxDriver, sandboxWall });
  });

  it("says in its status whether it was interrupted and what to type then", () => {
    const options = {
      interrupted: true,
      ...{ repository: "/r", authority: "/r" },
      hints: createHints({ environment: {} }),
      now: moment(9),
    };
    const lines = statusLines(view(), options).map((line) => line.text);
    expect(lines).toContain("  interrupted: no process is driving it. To continue: wavesmith resume bld_1");
    expect(statusJson(view(), options)).toMatchObject({ interrupted: true, status: "running", buildId: "bld_1" });
  });
});

describe("a preview that is shown", () => {
  const watch = async (...states: { status: string; port?: number; reason?: string | null }[]) => {
    const said: string[] = [];
    const find = async () => ({ waveNumber: 1, port: 1, reason: null, ...states.shift()! }) as never;
    const signal = new AbortController().signal;
    return { why: await watchPreview({ find, say: (text) => said.push(text), signal, everyMs: 1 }), said };
  };

  it("is over when somebody stopped it, and says why", async () => {
    expect(await watch({ status: "ready" }, { status: "stopped", reason: "the sandbox was stopped" })).toEqual({
      why: "the sandbox was stopped",
      said: [],
    });
    expect(await watch({ status: "dead" })).toEqual({ why: "it is dead", said: [] });
  });

  it("is still watched, with a message, when it died and is started again", async () => {
    const { why, said } = await watch(
      { status: "ready" },
      { status: "starting", port: 2 },
      { status: "ready", port: 2 },
      { status: "stopped" },
    );
    expect({ why, told: said.length }).toEqual({ why: "it is stopped", told: 2 });
  });

  it("stays until the signal", async () => {
    const stopping = new AbortController();
    const find = async () => ({ waveNumber: 1, port: 1, reason: null, status: "ready" }) as never;
    const watched = watchPreview({ find, say: () => undefined, signal: stopping.signal });
    stopping.abort();
    expect(await watched).toBe(null);
  });
});

describe("small things", () => {
  it("write durations, clocks, sizes, counts and tables for people", () => {
    expect([400, 9_940, 9_990, 59_400, 125_000, 3_720_000].map(duration)).toEqual([
      "0.4s",
      "9.9s",
      "10s",
      "59s",
      "2m 05s",
      "1h 02m",
    ]);
    expect([7_000, 754_000, 3_723_000].map(clock)).toEqual(["0:07", "12:34", "1:02:03"]);
    expect([12, 2048, 5 * 1024 ** 3].map(bytesText)).toEqual(["12 B", "2.0 KiB", "5.0 GiB"]);
    expect([count(1, "task"), count(2, "task")]).toEqual(["1 task", "2 tasks"]);
    expect(ago(moment(0), new Date(moment(0).getTime() + 7_300_000))).toBe("2 hours ago");
    expect(
      table([
        ["a", "b"],
        ["long", "c"],
      ]),
    ).toEqual(["a     b", "long  c"]);
  });

  it("remove control characters and escapes from others' text, and keep its lines", () => {
    expect(harmless("a\x1b[31mb\x1b[0m\r\nc\x07\td\x9bK")).toBe("ab\nc\td");
  });

  it("join lines that came in pieces", () => {
    const splitter = createLineSplitter();
    expect(splitter.take("a", "one\ntw")).toEqual(["one"]);
    expect(splitter.take("b", "other\n")).toEqual(["other"]);
    expect(splitter.take("a", "o\n\nthr")).toEqual(["two", ""]);
    expect([splitter.rest("a"), splitter.rest("b")]).toEqual(["thr", null]);
  });
});
