import { expect, it } from "vitest";
import { askForChores } from "../../src/sandbox-lifecycle/upkeep/due-chores.ts";
import { createBuildFixture } from "../support/build-fixture.ts";

it("asks for chores that have something to do, and for nothing else", async () => {
  const minuteMs = 60_000;
  const hour = Math.ceil(Date.now() / (60 * minuteMs)) * 60 * minuteMs;
  let now = hour + minuteMs;
  const fixture = await createBuildFixture({ clock: () => new Date(now) });
  try {
    const { ports, store } = fixture.app;
    const at = (minute: number) => {
      now = hour + minute * minuteMs;
      return askForChores(ports);
    };
    for (const minute of [1, 10, 17, 59]) expect([minute, await at(minute)]).toEqual([minute, []]);
    expect(await at(65), "once an hour, what the database may have forgotten").toEqual(["sandbox/reconcile.due"]);
    now = hour + 66 * minuteMs;
    expect((await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt" }] })).status).toBe("completed");
    const before = (await store.sandboxes.get({})).checkedAt;
    expect(await at(71)).toEqual(["sandbox/check.due"]);
    expect(await at(71), "twice in a minute is once").toEqual(["sandbox/check.due"]);
    await expect
      .poll(async () => (await store.sandboxes.get({})).checkedAt?.getTime(), { timeout: 20_000 })
      .toBeGreaterThan(before?.getTime() ?? 0);
    expect(await at(75)).toEqual(["sandbox/check.due", "sandbox/reconcile.due"]);
    expect(await at(71 + 180)).toEqual(["sandbox/check.due", "sandbox/idle.due"]);
  } finally {
    await fixture.close();
  }
});
