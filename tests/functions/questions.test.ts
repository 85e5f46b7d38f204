import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../../src/cli/parts.ts";
import { startServer } from "../../src/server/server.ts";
import { markServed } from "../../src/store/serving.ts";
import { createStore } from "../../src/store/store.ts";
import { agentBuilds, scripted } from "../support/agent-builds.ts";
import type { BuildProcessInput, BuildProcessLine } from "../support/build-process.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { runHere } from "../support/command-line.ts";
import { testDatabase } from "../support/database.ts";
import { requires } from "../support/require.ts";

// An agent asks a person to allow a forbidden action, while a person sits at a terminal.

const world = agentBuilds();
const asked = "../../../cache/asked.txt";

const plan = (instructions: string, more: object = {}) => ({
  name: "asks",
  source: { path: "seed" },
  gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
  network: "none",
  agents: { backend: scripted },
  tasks: [{ id: "api", agent: "backend", instructions, retries: 0, ...more }],
});
const wanted = `write ${asked} yes\nrun cp ${asked} asked.txt || echo denied > asked.txt`;

interface Place {
  readonly databaseUrl: string;
  readonly dataDir: string;
}

/** A command on another terminal. */
const command = ({ databaseUrl, dataDir }: Place, ...words: string[]) =>
  runHere(words, {
    ...process.env,
    DATABASE_URL: databaseUrl,
    WAVESMITH_DATA: dataDir,
    WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
  });

describe("a watched build", () => {
  beforeEach(() => world.open());

  const place = (): Place => {
    const { databaseUrl, dataDir } = world.fixture.app.config;
    return { databaseUrl: databaseUrl!, dataDir };
  };
  const questions = (buildId: string) => world.fixture.app.store.questions.list({ buildId }, { by: "id" });
  const start = (instructions: string, more: object = {}, interactive = true) =>
    world.fixture.request(plan(instructions, more), { planFolder: world.folder, interactive });
  const untilAsked = async (buildId: string, count = 1) => {
    await world.fixture.until(buildId, async () => (await questions(buildId)).length >= count);
    return questions(buildId);
  };
  const done = async (buildId: string) =>
    (await world.fixture.git("show", "main:asked.txt")).trim() +
    (await world.fixture.app.store.builds.get({ id: buildId })).status;

  it("has its agent's question answered from another terminal, once", async () => {
    const buildId = await start(wanted);
    const [question] = await untilAsked(buildId);
    expect(question).toMatchObject({
      role: "backend",
      text: `Write ${asked}`,
      reason: expect.stringContaining("outside its tree"),
      options: [{ kind: "allow_always" }, { kind: "allow_once" }, { kind: "reject_once" }],
      answer: null,
      closedAt: null,
    });
    expect(question!.deadlineAt.getTime() - question!.askedAt.getTime()).toBe(10 * 60_000);
    const status = await command(place(), "status", buildId);
    expect(status.text).toContain(`question ${question!.id}: api asks: Write ${asked}`);
    expect(status.text).toContain(`wavesmith answer ${buildId} ${question!.id} --allow`);
    expect(JSON.parse((await command(place(), "status", buildId, "--json")).text)).toMatchObject({
      questions: [{ id: question!.id, from: "api", text: `Write ${asked}` }],
    });
    expect(await command(place(), "answer", buildId)).toMatchObject({ code: 2 });
    expect(await command(place(), "answer", buildId, "--allow")).toMatchObject({ code: 0 });
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await done(buildId)).toBe("yescompleted");
    const [answered] = await questions(buildId);
    expect(answered).toMatchObject({ answer: "allow", answeredBy: expect.stringMatching(/./) });
    expect(answered!.closedAt).not.toBeNull();
    const late = await command(place(), "answer", buildId, String(question!.id), "--deny");
    expect(late.code).not.toBe(0);
    expect(late.text).toContain(`question ${question!.id} was answered by`);
    expect((await command(place(), "logs", buildId)).text).toContain(`asks a person: Write ${asked}`);
  });

  it("has it denied, each question by its number", async () => {
    const buildId = await start(`${wanted}\nwrite ../../../cache/other.txt no`);
    const [first] = await untilAsked(buildId);
    expect((await command(place(), "answer", buildId, "--deny")).code).toBe(0);
    const [, second] = await untilAsked(buildId, 2);
    expect((await command(place(), "answer", buildId, String(first!.id), "--allow")).code).not.toBe(0);
    expect((await command(place(), "answer", buildId, String(second!.id), "--deny")).code).toBe(0);
    await world.fixture.until(buildId);
    expect(await done(buildId)).toBe("deniedcompleted");
  });

  it.each(["a data directory", "a server"])("is answered by a letter and Enter in attach, on %s", async (where) => {
    // `attach` looks for the mark of a process that drives builds, which this fixture has not set.
    const { database } = await openStore(world.fixture.app.config, "mark");
    const mark = await markServed(database, world.fixture.projectId);
    const buildId = await start(wanted);
    await untilAsked(buildId);
    const server =
      where === "a server"
        ? await startServer({
            ...{ app: world.fixture.app, key: "s3cret", host: "127.0.0.1", port: 0, inform: () => undefined },
            ...{ engine: { kind: "embedded", serveOrigin: null }, warn: () => undefined },
          })
        : null;
    const on =
      server === null
        ? { DATABASE_URL: place().databaseUrl, WAVESMITH_DATA: place().dataDir }
        : { WAVESMITH_SERVER: server.origin, WAVESMITH_KEY: "s3cret" };
    const line = [process.execPath, "bin/wavesmith.js", "attach", buildId].map((word) => `'${word}'`).join(" ");
    const attached = spawn("script", ["-qec", line, "/dev/null"], { env: { ...process.env, ...on } });
    try {
      const reads = createInterface({ input: attached.stdout });
      await new Promise<void>((resolve) =>
        reads.on("line", (text) => text.includes("and Enter: allow it") && resolve()),
      );
      // Anything typed before the question opened is dropped, so type until it is read.
      const typing = setInterval(() => attached.stdin.write("a\r"), 500);
      await world.fixture.until(buildId).finally(() => clearInterval(typing));
      expect(await done(buildId)).toBe("yescompleted");
      if (attached.exitCode === null) await new Promise((resolve) => attached.once("exit", resolve));
      expect(attached.exitCode).toBe(0);
    } finally {
      attached.kill();
      await server?.stop(0);
      await mark.end();
      await database.close();
    }
  });

  it("continues if nobody answers, and says so", async () => {
    const buildId = await start(wanted, { timeout: "16s" });
    await untilAsked(buildId);
    await world.fixture.until(buildId);
    const [question] = await questions(buildId);
    expect(question).toMatchObject({ answer: null, closedAt: expect.any(Date) });
    const [attempt] = await world.fixture.app.store.attempts.list({ buildId });
    const { text } = await command(place(), "logs", buildId);
    expect(`${text}${attempt!.outputTail}`).toContain("nobody answered in time");
  });

  it("is denied at once, and logged, when nobody watches", async () => {
    const buildId = await start(wanted, {}, false);
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await questions(buildId)).toEqual([]);
    expect(await done(buildId)).toBe("deniedcompleted");
    expect((await command(place(), "logs", buildId)).text).toContain(`not allowed: Write ${asked}`);
  });

  it("closes its open questions when it is cancelled", async () => {
    const buildId = await start(wanted);
    const [question] = await untilAsked(buildId);
    expect((await command(place(), "cancel", buildId)).code).toBe(0);
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "cancelled" });
    expect(await questions(buildId)).toMatchObject([{ answer: null, closedAt: expect.any(Date) }]);
    expect((await command(place(), "answer", buildId, String(question!.id), "--allow")).text).toContain("is closed");
  });

  it("delivers an answer through the process that watches the job if the one that took it could not", async () => {
    const buildId = await start(wanted);
    const [question] = await untilAsked(buildId);
    const patch = { answer: "allow", answeredBy: "ada", answeredAt: new Date() } as const;
    await world.fixture.app.store.questions.update({ id: question!.id }, patch);
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await done(buildId)).toBe("yescompleted");
  });
});

describe("a question that is open when the process that drives the build is killed", () => {
  beforeEach(() => world.open());

  it("stays open, is answered meanwhile, and the agent continues as if nothing had happened", {
    timeout: 240_000,
  }, async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-asked-"));
    const database = await testDatabase();
    const place = { dataDir, databaseUrl: database.url };
    const store = createStore(database.pool);
    const input: BuildProcessInput = {
      project: basename(dataDir).toLowerCase(),
      interactive: true,
      crashAt: null,
      plan: { ...plan(`run echo once >> ../../../cache/ran\n${wanted}`), source: { path: join(world.folder, "seed") } },
    };
    try {
      let buildId = "";
      const first = drive(place, input, (line) => {
        if (line.type === "started") buildId = line.buildId;
      });
      await expect.poll(async () => (await store.questions.list({})).length, { timeout: 90_000 }).toBe(1);
      first.kill();
      await first.ended;
      expect(await store.questions.list({})).toMatchObject([{ answer: null, closedAt: null }]);
      expect(await command(place, "answer", buildId, "--allow")).toMatchObject({ code: 0 });
      const lines: BuildProcessLine[] = [];
      await drive(place, input, (line) => lines.push(line)).ended;
      expect(lines.at(-1)).toMatchObject({ type: "ended", status: "completed", reason: null, ran: "once\n" });
      const [attempt] = await store.attempts.list({});
      expect(attempt).toMatchObject({ number: 1, outcome: "succeeded" });
      expect(await store.questions.list({})).toMatchObject([{ answer: "allow", closedAt: expect.any(Date) }]);
    } finally {
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});

const program = await bundledProgram("build-process");

function drive(
  { dataDir, databaseUrl }: Place,
  input: BuildProcessInput,
  on: (line: BuildProcessLine) => void,
): { kill(): void; ended: Promise<void> } {
  const child = spawn(process.execPath, [program, JSON.stringify(input)], {
    env: {
      ...process.env,
      WAVESMITH_DATA: dataDir,
      DATABASE_URL: databaseUrl,
      WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  createInterface({ input: child.stdout }).on("line", (text) => on(JSON.parse(text) as BuildProcessLine));
  // Not `close`, because processes that the killed one started may hold its pipes.
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return { kill: () => child.kill("SIGKILL"), ended };
}
