import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { previewPlaceOf } from "../../src/domain/sandbox/sandbox.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { type FakeInngest, startFakeInngest } from "../support/fake-inngest.ts";
import { requires } from "../support/require.ts";

const bin = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const sandbox = requires("bubblewrap") ? "local" : "local-unsafe";
const over = ["completed", "failed", "cancelled", "waiting"];

interface Serve {
  readonly url: string;
  readonly keyFile: string;
  readonly notes: string[];
  readonly said: readonly Said[];
  readonly process: ChildProcess;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
}

interface Said {
  readonly type: string;
  readonly url: string;
  readonly key?: string;
  readonly keyFile: string;
}

describe("wavesmith serve", () => {
  let dataDir: string;
  let database: TestDatabase;
  let store: Store;
  let inngest: FakeInngest | null;
  const running: Serve[] = [];

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "wavesmith-serve-"));
    database = await testDatabase();
    store = createStore(database.pool);
    inngest = null;
  });
  afterEach(async () => {
    for (const serve of running.splice(0)) {
      serve.process.kill("SIGKILL");
      await serve.ended;
    }
    await removeSandboxes();
    await inngest?.close();
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  const environment = (extra: Record<string, string> = {}) => ({
    ...process.env,
    DATABASE_URL: database.url,
    WAVESMITH_DATA: dataDir,
    WAVESMITH_SANDBOX: sandbox,
    ...extra,
  });

  async function removeSandboxes(): Promise<void> {
    const projects = await store.projects.list({});
    if (projects.length === 0) return;
    const app = await createApp({ config: loadConfig(environment()), warn: () => undefined });
    for (const { id } of projects)
      for (const place of [id, previewPlaceOf(id)])
        await app.ports.driver(sandbox).remove(place as never, { volume: true });
    await app.close();
  }

  function run(
    words: string[],
    extra: Record<string, string> = {},
    cwd = process.cwd(),
  ): { process: ChildProcess; ended: Promise<number | null> } {
    const child = spawn(process.execPath, [bin, ...words], {
      env: environment(extra),
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return { process: child, ended: new Promise((resolve) => child.once("exit", resolve)) };
  }

  async function serve(extra: Record<string, string> = {}): Promise<Serve> {
    const child = run(["serve", "--port", "0", "--json"], extra);
    const notes: string[] = [];
    createInterface(child.process.stderr!).on("line", (line) => notes.push(line));
    const said: Said[] = [];
    const { url, keyFile } = await new Promise<Said>((resolve, reject) => {
      createInterface(child.process.stdout!).on("line", (line) => {
        said.push(JSON.parse(line) as Said);
        if (said.at(-1)!.type === "serve.started") resolve(said.at(-1)!);
      });
      void child.ended.then((code) => reject(new Error(`serve ended with ${code}: ${notes.join("\n")}`)));
    });
    const started = { ...child, url, keyFile, notes, said };
    running.push(started);
    return started;
  }

  async function request({ url, keyFile }: Serve, id: string, plan: object): Promise<string> {
    const body = JSON.stringify({ name: "project/build.requested", id, data: { plan } });
    const key = (await readFile(keyFile, "utf8")).trim();
    const response = await fetch(`${url}/e/${key}`, { method: "POST", body });
    expect(response.status).toBe(200);
    return buildIdForEvent(id);
  }

  const statusOf = async (buildId: string) => (await store.builds.find({ id: buildId }))?.status ?? "";
  const untilOver = (buildId: string) =>
    until(async () => over.includes(await statusOf(buildId)), `build ${buildId} to be over`);

  /**
   * Waits until something holds. If a test hangs, it says what for, how far the builds are, and
   * what `serve` warned of.
   */
  async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
    const deadline = Date.now() + 50_000;
    while (!(await holds())) {
      if (Date.now() > deadline) {
        const builds = (await store.builds.list({})).map(({ id, status, headSha }) => `${id} ${status} ${headSha}`);
        const unsent = (await store.outbox.list({ sentAt: null })).map(({ eventId }) => eventId);
        const runs = await database.pool.query("select function_id, status, output from engine.runs");
        const facts = JSON.stringify({ builds, unsent, runs: runs.rows, notes: running.map(({ notes }) => notes) });
        throw new Error(`waited in vain for ${what}: ${facts}`);
      }
      await new Promise((wake) => setTimeout(wake, 100));
    }
  }

  it("drives the builds of every project without being asked to", async () => {
    const server = await serve();
    const { process: child, ended } = server;
    const plan = (name: string) => ({ name, tasks: [{ id: "a", run: `echo ${name} > a.txt` }] });
    const ids = await Promise.all(["north", "south"].map((name) => request(server, name, plan(name))));
    for (const id of ids) await untilOver(id);
    expect(await Promise.all(ids.map(statusOf))).toEqual(["completed", "completed"]);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    expect(await store.sandboxes.list({ state: "running" }), "idle sandboxes end with it").toEqual([]);
  });

  it("starts a build that it accepted, even if it is killed at once", async () => {
    const first = await serve();
    const key = (await readFile(first.keyFile, "utf8")).trim();
    const post = async (path: string, body: object) => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${first.url}/api/v1${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(201);
      return (await response.json()) as { id: string };
    };
    await post("/projects", { name: "killed" });
    const plan = { name: "killed", tasks: [{ id: "a", run: "echo a > a.txt" }] };
    const { id } = await post("/projects/killed/builds", plan);
    first.process.kill("SIGKILL");
    await first.ended;
    await serve();
    await untilOver(id);
    expect(await statusOf(id)).toBe("completed");
  });

  it("starts one build when a schedule that was added over HTTP is due, and lists it", async () => {
    const { url, keyFile } = await serve();
    const headers = { authorization: `Bearer ${(await readFile(keyFile, "utf8")).trim()}` };
    const send = (method: string, path: string, body?: object) =>
      fetch(`${url}/api/v1${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    expect((await send("POST", "/projects", { name: "upkeep" })).status).toBe(201);
    const plan = { name: "upkeep", tasks: [{ id: "a", run: "echo a > a.txt" }] };
    const path = "/projects/upkeep/schedules";
    const faulty = await send("PUT", path, { on: { schedule: [{ cron: "61 * * * *" }] }, plan });
    expect([faulty.status, await faulty.text()]).toEqual([422, expect.stringContaining("on.schedule[0].cron")]);
    const added = await send("PUT", path, { on: { schedule: [{ name: "yearly", cron: "0 0 1 1 *" }] }, plan });
    const { items } = (await added.json()) as { items: { id: string }[] };
    const id = items[0]!.id;
    expect(items).toMatchObject([{ project: "upkeep", name: "yearly", status: "active", lastBuildId: null }]);

    expect(await (await send("POST", `/schedules/${id}/pause`)).json()).toMatchObject({ id, nextAt: null });
    expect((await send("POST", `/schedules/${id}/resume`)).status).toBe(200);
    await store.schedules.update({ id: id as never }, { nextAt: new Date() });
    await until(async () => (await store.builds.find({})) !== null, "the schedule to start a build");
    const build = await store.builds.get({});
    await untilOver(build.id);
    expect(await statusOf(build.id)).toBe("completed");
    expect(await store.builds.list({})).toHaveLength(1);
    expect(JSON.parse(await textOf("schedules", "--json"))).toMatchObject({
      schedules: [{ id, project: "upkeep", lastBuildId: build.id, failures: 0, note: null }],
    });
    expect((await send("DELETE", `/schedules/${id}`)).status).toBe(200);
    expect(await (await send("GET", "/schedules")).json()).toEqual({ items: [] });
  });

  it("delivers a build of a person's repository that it completes, to its branch there", async () => {
    const repository = join(dataDir, "own");
    const git = (...args: string[]) => execFileSync("git", ["-C", repository, ...args], { encoding: "utf8" }).trim();
    execFileSync("git", ["init", "-q", "-b", "main", repository]);
    git("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-q", "--allow-empty", "-m", "first");
    const planFile = join(dataDir, "served.json");
    const plan = { name: "served", approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] };
    await writeFile(planFile, JSON.stringify(plan));
    expect(await run(["build", planFile], {}, repository).ended).toBe(5);
    const { id, headSha: before } = await store.builds.get({});
    const { url, keyFile, said } = await serve();
    const headers = { authorization: `Bearer ${(await readFile(keyFile, "utf8")).trim()}` };
    const approve = await fetch(`${url}/api/v1/builds/${id}/approve`, { method: "POST", headers, body: "{}" });
    expect(approve.status).toBe(202);
    await until(async () => said.some(({ type }) => type === "build.delivered"), "the delivery");
    const { headSha } = await store.builds.get({ id });
    expect([git("rev-parse", "wavesmith/served"), git("show", "wavesmith/served:a.txt")]).toEqual([headSha, "a"]);
    expect([headSha === before, git("rev-parse", "main")]).toEqual([false, before]);
  });

  it("creates a key file that only its user can read, and prints the key once", async () => {
    const first = await serve();
    const told = first.said.find(({ type }) => type === "serve.key");
    expect(told?.key).toMatch(/^[\w-]{32,}$/);
    expect([(await readFile(first.keyFile, "utf8")).trim(), told?.keyFile]).toEqual([told?.key, first.keyFile]);
    expect((await stat(first.keyFile)).mode & 0o777).toBe(0o600);
    first.process.kill("SIGTERM");
    expect(await first.ended).toBe(0);
    const second = await serve();
    expect(JSON.stringify(second.said)).not.toContain(told!.key);
    const body = JSON.stringify({ name: "project/wave.approved", data: { buildId: "bld_none" } });
    expect((await fetch(`${second.url}/e/local`, { method: "POST", body })).status).toBe(401);
    expect((await fetch(`${second.url}/e/${told!.key}`, { method: "POST", body })).status).toBe(404);
  });

  it("leaves jobs running when it is stopped, says so, and the next one takes them over", async () => {
    const first = await serve();
    const plan = {
      name: "long",
      tasks: [
        { id: "a", run: "echo once >> a.txt; until [ -e ../../../repo/go ]; do sleep 0.1; done" },
        { id: "b", dependsOn: ["a"], run: "cp a.txt b.txt" },
      ],
    };
    const buildId = await request(first, "long", plan);
    await until(async () => (await store.attempts.find({ buildId }))?.status === "running", "the task to run");
    first.process.kill("SIGINT");
    expect(await first.ended).toBe(0);
    expect(first.notes.join("\n")).toMatch(/1 sandbox keeps running its jobs; the next serve/);
    expect(await store.jobs.list({ status: "running", leaseOwner: null }), "its leases are released").toHaveLength(1);
    const second = await serve();
    await release(buildId);
    await untilOver(buildId);
    expect(await statusOf(buildId)).toBe("completed");
    expect(await store.attempts.list({ buildId }), "nothing was done twice").toHaveLength(2);
    second.process.kill("SIGTERM");
    expect(await second.ended).toBe(0);
  });

  it("shows the preview of a build that an event started, at a stable address that status prints", {
    timeout: 180_000,
  }, async () => {
    const first = await serve();
    const command = `node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;
    const plan = { name: "shown", preview: { command }, tasks: [{ id: "a", run: "echo a > a" }] };
    const buildId = await request(first, "shown", plan);
    await untilOver(buildId);
    await until(async () => (await previewOf(buildId))?.url !== null, "the preview to be served");
    const url = (await previewOf(buildId))!.url!;
    const answers = async () => (await fetch(url).catch(() => null))?.status === 200;
    await until(answers, "the preview to answer");
    const [isolation, wall] = sandbox === "local" ? ["bubblewrap", "bubblewrap for each job"] : ["none", "no wall"];
    expect(await textOf("status", buildId)).toContain(`sandbox ${sandbox} (${wall}), network`);
    expect(JSON.parse(await textOf("status", buildId, "--json")).sandboxWall).toEqual({ isolation, runtime: null });
    expect(await textOf("sandbox", "ls")).toMatch(new RegExp(`^shown +sbx_\\w+ +${sandbox} +${wall} +running `, "m"));
    const { sandboxes } = JSON.parse(await textOf("sandbox", "ls", "--json")) as { sandboxes: object[] };
    expect(sandboxes).toContainEqual(expect.objectContaining({ project: "shown", wall: { isolation, runtime: null } }));

    first.process.kill("SIGKILL");
    await first.ended;
    await until(async () => (await previewOf(buildId))?.url === null, "status to say that nobody shows it");
    expect(await run(["sandbox", "stop", "shown"]).ended).toBe(0);
    expect(await previewOf(buildId)).toMatchObject({ status: "asleep" });

    const second = await serve();
    await until(answers, "the preview to answer again");
    expect(await previewOf(buildId)).toEqual({ wave: 1, status: "ready", url });
    second.process.kill("SIGTERM");
    expect(await second.ended).toBe(0);
  });

  async function previewOf(buildId: string): Promise<{ status: string; url: string | null } | null> {
    const text = await textOf("status", buildId, "--json");
    return (JSON.parse(text) as { preview: { status: string; url: string | null } | null }).preview;
  }

  /** Returns what a command prints. */
  async function textOf(...words: string[]): Promise<string> {
    const { process: child, ended } = run(words);
    let text = "";
    child.stdout!.on("data", (chunk) => {
      text += chunk;
    });
    await ended;
    return text;
  }

  /** Lets task `a` end, which waits for a file in the joined tree. */
  async function release(buildId: string): Promise<void> {
    const { projectId } = await store.builds.get({ id: buildId });
    const project = await store.projects.get({ id: projectId });
    const { ended } = run(["sandbox", "exec", project.name, "--", "touch", "go"]);
    expect(await ended).toBe(0);
  }

  it("shares its database with no other data directory: commands there name the right one and do nothing", async () => {
    await serve();
    const other = await mkdtemp(join(tmpdir(), "wavesmith-other-"));
    const plan = fileURLToPath(new URL("../../examples/diamond/plan.yaml", import.meta.url));
    try {
      for (const words of [["build", plan], ["builds"], ["status"], ["serve", "--port", "0"], ["sandbox", "ls"]]) {
        const command = run([...words, "--data", other, "--json"]);
        let said = "";
        for (const stream of [command.process.stdout!, command.process.stderr!])
          stream.on("data", (chunk) => {
            said += chunk;
          });
        expect([words[0], await command.ended, said]).toEqual([
          words[0],
          4,
          expect.stringContaining(`--data ${dataDir}`),
        ]);
      }
      expect(await store.builds.list({})).toEqual([]);
    } finally {
      await rm(other, { recursive: true });
    }
  });

  it("takes a request of build --engine inngest, which then follows the build to its end", async () => {
    inngest = await startFakeInngest();
    const extra = { INNGEST_DEV: inngest.url };
    const plan = fileURLToPath(new URL("../../examples/diamond/plan.yaml", import.meta.url));
    const alone = run(["build", plan, "--json", "--engine", "inngest"], extra);
    let said = "";
    alone.process.stderr!.on("data", (chunk) => {
      said += chunk;
    });
    expect(await alone.ended).toBe(4);
    expect(said).toMatch(/wavesmith serve --engine inngest/);
    await serve(extra);
    await expect.poll(() => inngest!.registrations, { timeout: 20_000 }).toBeGreaterThan(0);
    const build = run(["build", plan, "--json", "--engine", "inngest"], extra);
    const lines: string[] = [];
    createInterface(build.process.stdout!).on("line", (line) => lines.push(line));
    expect(await build.ended).toBe(0);
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ type: "build.finished", status: "completed" });
    await inngest.idle();
    expect(inngest.faults).toEqual([]);
    const tasks = inngest.runs.filter(({ functionId }) => functionId === "wavesmith-task-execute");
    expect(tasks).toHaveLength(4);
  });
});
