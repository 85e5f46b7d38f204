import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { deliverDueNotices, mostTries, retryNotices } from "../../src/coordinator/notification/deliver-notices.ts";
import { approveWave } from "../../src/coordinator/wave/decide-wave.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";
import { createWebhookReceiver, type WebhookReceiver } from "../support/webhook-receiver.ts";

describe("a plan's `notify`", () => {
  const fixture = eachBuildFixture({ env: { WAVESMITH_NOTIFY_HOSTS: "127.0.0.1" } });
  let receiver: WebhookReceiver;
  beforeEach(async () => {
    receiver = await createWebhookReceiver();
  });
  afterEach(() => receiver.close());
  const heard = () => receiver.received.map(({ body }) => JSON.parse(body) as { type: string; title: string });
  const statuses = async () => {
    const rows = await fixture.app.store.notifications.list({}, { by: "createdAt" });
    return rows.map(({ event, status, tries }) => [event, status, tries]);
  };
  const tasks = [{ id: "a", run: "echo a > a" }];

  it("hears of an approval that waits and of the build's end, each once", async () => {
    const waiting = await fixture.build({ approval: "wave", tasks, notify: [receiver.url, receiver.url] });
    await expect.poll(heard, { timeout: 10_000 }).toHaveLength(1);
    expect(heard()[0]).toMatchObject({
      type: "project/approval.requested",
      title: "fixture: wave 1 is waiting for your approval",
      data: { buildId: waiting.id, waveNumber: 1 },
    });
    await approveWave(fixture.app.ports, waiting.id, { by: "Ada" });
    await fixture.until(waiting.id, ({ status }) => status === "completed");
    await expect.poll(heard, { timeout: 10_000 }).toHaveLength(2);
    await expect.poll(statuses, { timeout: 10_000 }).toEqual([
      ["project/approval.requested", "sent", 1],
      ["project/build.completed", "sent", 1],
    ]);
  });

  it("is tried again after a pause, given up after the last try, and sent when asked again", async () => {
    receiver.answer = { status: 503 };
    const failed = await fixture.build({ tasks: [{ id: "a", run: "exit 1" }], notify: [receiver.url] });
    expect(failed.status).toBe("failed");
    await expect.poll(statuses, { timeout: 10_000 }).toEqual([["project/build.failed", "waiting", 1]]);
    let now = Date.now();
    const ports = { ...fixture.app.ports, clock: { now: () => new Date(now) } };
    expect(await deliverDueNotices(ports, "all"), "it is not due yet").toBe(0);
    for (let tries = 2; tries <= mostTries; tries += 1) {
      now += 9 * 3_600_000;
      expect(await deliverDueNotices(ports, "all")).toBe(1);
    }
    expect(await statuses()).toEqual([["project/build.failed", "dead", mostTries]]);
    expect(fixture.warnings.join("\n")).toMatch(
      /http:\/\/127\.0\.0\.1:\d+\/… did not receive "fixture: the build failed": it answered 503; it is not tried again.*replay ntf_/,
    );
    receiver.answer = { status: 200 };
    expect(await retryNotices(ports, null)).toBe(1);
    await deliverDueNotices(ports, "all");
    await expect.poll(statuses, { timeout: 10_000 }).toEqual([["project/build.failed", "sent", 1]]);
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  });

  it("is sent by the next process if one is killed in the middle of a try", async () => {
    receiver.answer = null;
    const done = await fixture.build({ tasks, notify: [receiver.url] });
    expect(done.status).toBe("completed");
    await expect.poll(() => receiver.received.length, { timeout: 10_000 }).toBe(1);
    expect(await statuses(), "claimed, and nobody heard the answer").toEqual([
      ["project/build.completed", "waiting", 1],
    ]);
    receiver.answer = { status: 204 };
    const ports = { ...fixture.app.ports, clock: { now: () => new Date(Date.now() + 60_000) } };
    const both = await Promise.all([deliverDueNotices(ports, "all"), deliverDueNotices(ports, "all")]);
    expect(Math.max(...both)).toBe(1);
    expect(receiver.received, "two processes make one try").toHaveLength(2);
    expect(await statuses()).toEqual([["project/build.completed", "sent", 2]]);
  });
});
