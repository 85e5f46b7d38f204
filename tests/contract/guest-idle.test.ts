import { createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually, type GuestFixture, job, outcome, shell, startGuest } from "./guest-fixture.ts";

describe("a guest asked how long it has been idle", () => {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation: "sweep" });
  });
  afterAll(async () => guest.stop());
  const idleMs = async (): Promise<number> => (await guest.client.health()).idleMs;
  const becomesIdle = (): Promise<void> => eventually(async () => (await idleMs()) > 300, "it is idle");
  /** Waits for as long as `becomesIdle` takes elsewhere, and longer, and expects 0 all the time. */
  const staysBusy = async (): Promise<void> => {
    for (let count = 0; count < 12; count += 1) {
      expect(await idleMs()).toBe(0);
      await delay(50);
    }
  };

  it("does not count being asked", becomesIdle);

  it("is not idle while a job runs, a preview included", async () => {
    const waiting = { argv: ["sh", "-c", "until [ -e go ]; do sleep 0.05; done"] };
    const preview = shell(waiting.argv[2]!, { name: "preview", background: true });
    await guest.client.startJob("job", job(preview));
    await staysBusy();
    await guest.client.writeFile("go", "");
    await outcome(guest.client, "job");
    await becomesIdle();
  });

  it("is not idle while a short command runs", async () => {
    const argv = ["sh", "-c", "until [ -e go-on ]; do sleep 0.05; done"];
    const running = guest.client.exec({ argv, cwd: "", env: {}, writable: [], timeoutMs: 60_000, maxBytes: 10 });
    await eventually(async () => (await idleMs()) === 0, "the command runs");
    await staysBusy();
    await guest.client.writeFile("go-on", "");
    expect((await running).exitCode).toBe(0);
    await becomesIdle();
  });

  it("is not idle while a tunnel is open, even if nothing goes through it", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const tunnel = await guest.client.tunnel((server.address() as { port: number }).port);
      await staysBusy();
      tunnel.destroy();
      await becomesIdle();
    } finally {
      server.close();
    }
  });
});

describe("a clock that jumps by an hour", () => {
  // As the process sees it: after SIGUSR2 the time of day is different for everything that asks for
  // it.
  const preload = fileURLToPath(new URL("../support/movable-clock.cjs", import.meta.url));

  it("ends neither an idle guest nor its jobs early", async () => {
    const guest = await startGuest({ isolation: "sweep", silenceMs: 4_000, preload });
    try {
      const waiting = shell("until [ -e go ]; do sleep 0.05; done");
      await guest.client.startJob("job", job({ ...waiting, timeoutMs: 60_000 }));
      const before = Date.now();
      guest.process.kill("SIGUSR2");
      // Longer than the guest waits between two looks at whether anybody spoke to it.
      for (let count = 0; count < 40; count += 1) {
        expect((await guest.client.health()).activeJobs).toBe(1);
        await delay(50);
      }
      await guest.client.writeFile("go", "");
      const ended = await outcome(guest.client, "job");
      expect(ended.status).toBe("passed");
      // It was changed: what it writes down has the new time.
      expect(Date.parse(ended.endedAt ?? "") - before).toBeGreaterThan(3_000_000);
    } finally {
      await guest.stop();
    }
  });
});
