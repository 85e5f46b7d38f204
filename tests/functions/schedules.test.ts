import { basename } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import { pauseSchedule, removeSchedule, resumeSchedule } from "../../src/coordinator/schedule/resume-schedule.ts";
import { settleSchedules } from "../../src/coordinator/schedule/settle-schedules.ts";
import { standingOf } from "../../src/coordinator/schedule/standing-request.ts";
import { startDueSchedules } from "../../src/coordinator/schedule/start-schedules.ts";
import { storeSchedules, storeSchedulesOfMains } from "../../src/coordinator/schedule/store-schedules.ts";
import type { ScheduleRow } from "../../src/store/port.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

const hour = 3_600_000;
const gates = { testing: false, critic: false, integration: false };
const plan = (run: string) => ({
  name: "p",
  gates,
  notify: ["https://hooks.example.com/x"],
  tasks: [{ id: "a", run }],
});
const standing = (run: string, cron = "0 * * * *") =>
  JSON.stringify({ on: { schedule: [{ name: "hourly", cron }] }, plan: plan(run) });

describe("a schedule", () => {
  const fixture = eachBuildFixture();
  let passedMs: number;
  let ports: Ports;
  beforeEach(() => {
    passedMs = 0;
    const clock = { now: () => new Date(Date.now() + passedMs) };
    ports = { ...fixture.app.ports, clock };
  });

  const projectId = () => projectIdFor("default", basename(fixture.app.config.dataDir));
  const driver = () => fixture.app.config.sandboxDriver;
  const start = () => startDueSchedules(ports, driver());
  const rows = () => ports.store.schedules.list({}, { by: "name" });
  const only = async () => (await rows())[0]!;
  const builds = () => ports.store.builds.list({}, { by: "position" });
  async function add(text: string): Promise<ScheduleRow> {
    const { store } = ports;
    const tenantId = fixture.app.tenant.tenantId;
    await store.tenants.insertIfAbsent({ id: tenantId, name: "default" });
    await store.projects.insertIfAbsent({ id: projectId(), tenantId, name: basename(fixture.app.config.dataDir) });
    const read = await standingOf(ports, text, async () => null);
    await storeSchedules(ports, { projectId: projectId(), origin: "file" }, read);
    return only();
  }
  const nextRun = async (): Promise<void> => {
    const { nextAt } = await only();
    passedMs += nextAt.getTime() - ports.clock.now().getTime() + 1_000;
  };
  /** Starts the next run and waits for the end of its build. */
  async function run(): Promise<string> {
    await nextRun();
    expect(await start()).toBe(1);
    const { lastBuildId } = await only();
    const build = await fixture.until(lastBuildId!);
    await settleSchedules(ports);
    return build.status;
  }

  it("starts one build at each time, however many servers look, and one for all the times it missed", async () => {
    await add(standing("echo hi > a"));
    expect(await start(), "nothing is due yet").toBe(0);
    await nextRun();
    const before = await only();
    await Promise.all([start(), start(), start()]);
    expect(await builds()).toHaveLength(1);
    const [build] = await builds();
    expect(build).toMatchObject({ requestedBy: "the schedule hourly" });
    expect((await fixture.until(build!.id)).status).toBe("completed");
    // As after a kill between the request and the update of the schedule's next time.
    await ports.store.schedules.update({ id: before.id }, before);
    await start();
    expect(await builds()).toHaveLength(1);
    expect(await only()).toMatchObject({ lastBuildId: build!.id, note: null, isSettled: false });
    await settleSchedules(ports);
    passedMs += 5 * hour;
    await start();
    expect(await builds()).toHaveLength(2);
    expect((await only()).note).toMatch(
      /^due at .* UTC, while nothing served it: 5 runs were missed, and one was started/,
    );
    expect(fixture.warnings.join("\n")).toContain("5 runs were missed");
    await fixture.until((await only()).lastBuildId!);
  });

  it("is paused after three failures in a row, says so, and runs again when it is resumed", async () => {
    const { id } = await add(standing("exit 1"));
    expect([await run(), await run()]).toEqual(["failed", "failed"]);
    expect(await only()).toMatchObject({ status: "active", failures: 2 });
    await settleSchedules(ports);
    expect(await only(), "each run counts once").toMatchObject({ failures: 2 });
    expect(await run()).toBe("failed");
    expect(await only()).toMatchObject({
      status: "paused",
      failures: 3,
      note: expect.stringMatching(/^paused after 3/),
    });
    const notices = await ports.store.notifications.list({ event: "project/schedule.paused" });
    expect(notices.map(({ title, text }) => [title, text.split("\n").at(-1)])).toEqual([
      ["p: the schedule hourly is paused", `wavesmith schedules resume ${id}`],
    ]);
    passedMs += 10 * hour;
    expect(await start()).toBe(0);
    expect(await resumeSchedule(ports, id)).toMatchObject({ status: "active", failures: 0, note: null });
    expect(await start(), "it does not make up for its pause").toBe(0);
    await add(standing("echo mended > b"));
    expect(await run()).toBe("completed");
    expect(await only()).toMatchObject({ status: "active", failures: 0 });
  });

  it("counts a request that cannot become a build, and waits until its last build is over", async () => {
    await add(standing("echo hi > a"));
    await ports.store.schedules.update({}, { request: { plan: { name: "p" } } });
    await nextRun();
    await start();
    expect(await only()).toMatchObject({
      failures: 1,
      lastBuildId: null,
      note: expect.stringContaining("no build was started"),
    });
    await add(standing("echo other > a"));
    const { id } = await fixture.build({ ...plan("echo c > c"), approval: "wave" });
    await ports.store.schedules.update({}, { lastBuildId: id });
    await nextRun();
    await start();
    expect(await only()).toMatchObject({
      lastBuildId: id,
      note: expect.stringContaining(`build ${id} was still running`),
    });
    expect(await builds()).toHaveLength(1);
  });

  it("comes from the repository's main, disappears with it, and stays while the file has faults", {
    timeout: 240_000,
  }, async () => {
    const seen = new Map();
    const write = (text: string) => ({
      ...plan(`cat > wavesmith.yaml <<'END'\n${text}\nEND\necho '${JSON.stringify(plan("echo x > x"))}' > plan.json`),
      notify: [],
    });
    const build = async (text: string) => {
      const made = write(text);
      const tasks = made.tasks.map((task) => ({ ...task, writes: ["wavesmith.yaml", "plan.json"] }));
      expect((await fixture.build({ ...made, tasks })).status).toBe("completed");
      await storeSchedulesOfMains(ports, seen);
      return rows();
    };
    const file = "plan: plan.json\non:\n  schedule: [{ cron: '0 3 * * *', timezone: Europe/Paris }]";
    expect(await build(file)).toMatchObject([
      { origin: "main", cron: "0 3 * * *", timezone: "Europe/Paris", request: { plan: { name: "p" } } },
    ]);
    const [first] = await rows();
    await expect(removeSchedule(ports, first!.id)).rejects.toThrow("is in wavesmith.yaml");
    expect(await pauseSchedule(ports, first!.id)).toMatchObject({ status: "paused" });
    expect(await build(`${file}\n# the same`), "it stays as it was").toMatchObject([{ status: "paused" }]);
    expect(await build("on: {}")).toHaveLength(1);
    expect(fixture.warnings.join("\n")).toMatch(/wavesmith\.yaml of .* was not read: .*either `plan` or `brief`/s);
    expect(await build("plan: plan.json\non: {}")).toEqual([]);
  });

  it("may not request what only a command on this machine may", async () => {
    const asks = (more: object) =>
      standingOf(ports, JSON.stringify({ on: {}, plan: { ...plan("true"), ...more } }), async () => null);
    await expect(asks({ source: { git: "/etc" } })).rejects.toThrow("may not set plan.source.git with a path");
    await expect(asks({ secrets: ["WAVESMITH_KEY"] })).rejects.toThrow(/missing-secret|secret/i);
  });
});
