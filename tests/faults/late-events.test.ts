import { describe, expect, it } from "vitest";
import { closeAttempt } from "../../src/coordinator/attempt/close-attempt.ts";
import { keepAttempt } from "../../src/coordinator/attempt/keep-attempt.ts";
import { loseAttempt } from "../../src/coordinator/attempt/lose-attempt.ts";
import { settleAttempt } from "../../src/coordinator/attempt/settle-attempt.ts";
import { claimAttempt, startAttemptJob } from "../../src/coordinator/attempt/start-attempt.ts";
import { endJob } from "../../src/coordinator/job/watch-jobs.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";
import { createRandom } from "../support/random-plan.ts";

// W4, W13: dedupe of event ids only saves work. Here every delivery has its own id, as under an
// Inngest server once its window of a day has passed, so that only the rows can say what has been
// acted on.

describe("events that arrive repeatedly, late and out of order", () => {
  const fixture = eachBuildFixture();

  const store = () => fixture.app.store;
  const guest = async () => {
    const { driver } = await store().sandboxes.get({ projectId: fixture.projectId, state: "running" });
    return (await fixture.app.ports.driver(driver).find(fixture.projectId as never))!.guest;
  };

  /**
   * Sends each event five times, four of them behind later ones, in an order that the seed decides.
   */
  function repeatEvents(seed: number): { sent: number } {
    const random = createRandom(seed);
    const { events } = fixture.app.ports;
    const { send } = events;
    const late: Parameters<typeof send>[0][number][] = [];
    const counted = { sent: 0 };
    const take = <T>(list: T[]): T => list.splice(random.between(0, list.length - 1), 1)[0]!;
    const sendOften: typeof send = async (all) => {
      // A request under another id is another build, so requests are sent only once.
      const repeatable = all.filter(({ name }) => name !== "project/build.requested");
      const copies = repeatable.flatMap((event) =>
        [1, 2, 3, 4].map((copy) => ({ ...event, id: `${event.id}~${copy}` })),
      );
      late.push(...copies);
      const due = Array.from({ length: Math.ceil(late.length / 2) }, () => take(late));
      counted.sent += all.length + due.length;
      await send([...due, ...all]);
    };
    Object.assign(events, { send: sendOften });
    return counted;
  }

  it("change nothing in a build with a conflict and a fix: the same tree, and no script runs twice", {
    timeout: 120_000,
  }, async () => {
    const delivered = repeatEvents(1);
    const ran = 'echo "$WAVESMITH_TASK" >> ../../../cache/ran';
    const buildId = await fixture.request({
      limits: { maxParallelTasks: 2 },
      agents: {
        fixer: { runtime: "command", command: "cat > /dev/null; echo fix >> ../../../cache/ran; echo ok > state" },
      },
      gates: {
        testing: { command: "echo 1..1; grep -q ok state && echo ok 1 - state || { echo not ok 1 - state; exit 1; }" },
      },
      tasks: [
        { id: "a", run: `${ran}; echo a >> list; echo bad > state` },
        { id: "b", run: `${ran}; echo b >> list` },
      ],
    });
    // This takes long on a busy machine, with five runs of each.
    for (const number of [1, 2]) {
      const passed = async () => (await store().waves.find({ buildId, number, status: "passed" })) !== null;
      await fixture.until(buildId, async ({ endedAt }) => endedAt !== null || passed());
    }
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:list")).toBe("a\nb\n");
    const scripts = (await (await guest()).readFile("cache/ran"))!.toString().trim().split("\n");
    expect(scripts.sort()).toEqual(["a", "b", "b", "fix"]);
    const outbox = await store().outbox.list({ buildId });
    expect(new Set(outbox.map(({ eventId }) => eventId)).size).toBe(outbox.length);
    expect(delivered.sent).toBeGreaterThan(outbox.length * 2);
    const waves = await store().waves.list({ buildId }, { by: "number" });
    expect(waves.map(({ number, status }) => [number, status])).toEqual([1, 2].map((number) => [number, "passed"]));
  });

  it("do not let an abandoned attempt affect the one that took its place", async () => {
    const { ports } = fixture.app;
    const buildId = await fixture.request({
      tasks: [{ id: "a", run: "while ! test -e ../../../cache/go; do sleep 0.05; done; pwd > a", retries: 0 }],
    });
    const running = async (number: number): Promise<boolean> =>
      (await store().attempts.find({ buildId, number, status: "running" })) !== null;
    await fixture.until(buildId, () => running(1));
    const stale = await store().attempts.get({ buildId, number: 1 });
    let job = await store().jobs.get({ key: stale.jobKey });
    await fixture.until(buildId, async () => {
      job = await store().jobs.get({ key: stale.jobKey });
      return job.leaseOwner !== null;
    });
    const passed = (await (await guest()).findJob(stale.jobKey))!;
    const build = await store().builds.get({ id: buildId });
    await ports.driver(build.sandboxDriver).stop(fixture.projectId as never);
    await fixture.until(buildId, () => running(2));

    const before = await facts(buildId);
    const attemptRef = { attemptId: stale.id, fence: stale.fence };
    await endJob(ports, build, { job, fence: job.fence }, { ...passed, status: "passed" });
    await keepAttempt(ports, attemptRef);
    await settleAttempt(ports, attemptRef);
    await loseAttempt(ports, attemptRef, "it is late");
    await closeAttempt(ports, attemptRef);
    expect(await claimAttempt(ports, { ...attemptRef, buildId })).toBe(false);
    await startAttemptJob(ports, attemptRef);
    expect(await facts(buildId)).toEqual(before);
    expect((await (await guest()).list(`trees/${buildId}`)).map(({ path }) => path.split("/").at(-1))).toEqual(["a.2"]);

    await (await guest()).writeFile("cache/go", "");
    const ended = await fixture.until(buildId);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:a")).toMatch(/\/a\.2\n$/);
    const attempts = await store().attempts.list({ buildId }, { by: "number" });
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["lost", "succeeded"]);
  });

  /** Everything that a late report might change. */
  async function facts(buildId: string) {
    const of = { buildId };
    const attempts = await store().attempts.list(of, { by: "number" });
    const jobs = await store().jobs.list(of, { by: "key" });
    return {
      build: await store().builds.get({ id: buildId }),
      tasks: await store().tasks.list(of),
      waves: await store().waves.list(of),
      attempts,
      jobs: jobs.map(({ key, status, state, ownerFence }) => ({ key, status, state, ownerFence })),
      events: (await store().outbox.list(of)).map(({ eventId }) => eventId).sort(),
      refs: await fixture.git("for-each-ref"),
    };
  }
});
