import { describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// W13: if nothing moves in a build, its request is repeated, even if the processes that took the
// request have died.

describe("a build whose requests were accepted but never answered", () => {
  const fixture = eachBuildFixture();

  /** Two running tasks whose ends were reported to a process that died with the reports. */
  async function silence(): Promise<BuildRow> {
    const { store } = fixture.app;
    const task = (id: string) => ({
      id,
      run: `touch begun; while ! test -e ../../../cache/go; do sleep 0.05; done; echo ${id} > ${id}`,
    });
    const buildId = await fixture.request({ limits: { maxParallelTasks: 2 }, tasks: [task("a"), task("b")] });
    const working = () => store.attempts.list({ buildId, status: "running" });
    await fixture.until(buildId, async () => (await working()).length === 2);
    const build = await store.builds.get({ id: buildId });
    const { events } = fixture.app.ports;
    const { send } = events;
    const taken: typeof send = async (all) => send(all.filter(({ name }) => name !== "agent/attempt.finished"));
    Object.assign(events, { send: taken });
    for (const attempt of await working()) {
      await guestOf(build).then((guest) => guest.cancelJob(attempt.jobKey, { reason: "lost", graceMs: 0 }));
      const id = `agent/attempt.finished:${attempt.id}:0`;
      await fixture.until(buildId, async () => (await store.outbox.find({ eventId: id }))?.sentAt != null);
    }
    Object.assign(events, { send });
    return build;
  }

  const guestOf = async (build: BuildRow) =>
    (await fixture.app.ports.driver(build.sandboxDriver).find(fixture.projectId as never))!.guest;

  it("requests the end of each of its attempts, not only of the last", async () => {
    const { store } = fixture.app;
    const build = await silence();
    await store.builds.update({ id: build.id }, { movedAt: new Date(Date.now() - 600_000) });
    await (await guestOf(build)).writeFile("cache/go", "");
    const ended = await fixture.until(build.id);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
    const outcomes = (await store.attempts.list({ buildId: build.id })).map((attempt) => attempt.outcome).sort();
    expect(outcomes.slice(0, 2)).toEqual(["lost", "lost"]);
  });

  it("can still be cancelled", async () => {
    const build = await silence();
    await requestCancel(fixture.app.ports, build.id, "enough");
    await fixture.app.store.builds.update({ id: build.id }, { movedAt: new Date(Date.now() - 600_000) });
    expect((await fixture.until(build.id)).status).toBe("cancelled");
  });
});
