import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import {
  eventually,
  type GuestFixture,
  job,
  outcome,
  outputOf,
  pidNamespace,
  processesSaying,
  run,
  shell,
  sleepToken,
  startGuest,
} from "./guest-fixture.ts";

/** Removes the mark, starts a session of its own and is adopted by init. */
const flee = (token: string): string => `env -i /usr/bin/setsid --fork sleep ${token} < /dev/null > /dev/null 2>&1`;
const lives = (token: string): Promise<void> => eventually(() => processesSaying(token).length > 0, "it lives");

describe.runIf(requires("bubblewrap"))("leftover processes of a job in a container", () => {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation: "sweep", starter: pidNamespace, args: ["--contained"] });
  });
  afterAll(async () => guest.stop());

  it("are found by their mark, their session and their parents", async () => {
    const [marked, inSession, ofParent] = [sleepToken(), sleepToken(), sleepToken()];
    const script = `setsid --fork sleep ${marked}; env -i sleep ${inSession} & sh -c 'env -i setsid sleep ${ofParent} & wait' & sleep 3600`;
    await guest.client.startJob("stray", job(shell(script)));
    for (const token of [marked, inSession, ofParent]) await lives(token);
    await guest.client.cancelJob("stray", { reason: "test", graceMs: 5_000 });
    for (const token of [marked, inSession, ofParent]) expect(processesSaying(token)).toEqual([]);
  });

  it("are found even when nothing shows any more which job they belonged to", async () => {
    const token = sleepToken();
    expect((await run(guest.client, "escape", shell(`${flee(token)}; touch escaped`))).status).toBe("passed");
    expect(processesSaying(token)).toEqual([]);
  });

  it("are found after a short command, too", async () => {
    const token = sleepToken();
    const argv = ["sh", "-c", flee(token)];
    await guest.client.exec({ argv, cwd: "", env: {}, writable: [], timeoutMs: 20_000, maxBytes: 1_000 });
    expect(processesSaying(token)).toEqual([]);
  });

  it("are ended with the job they may belong to, and running jobs lose nothing", async () => {
    const { client } = guest;
    const [elders, own] = [sleepToken(), sleepToken()];
    await client.startJob(
      "elder",
      job(shell(`${flee(elders)}; setsid --fork sleep 9${elders}; until [ -e go-elder ]; do sleep 0.05; done`)),
    );
    await lives(`9${elders}`);
    await run(client, "younger", shell(flee(own)));
    // The younger job's leftovers might also be the elder's; then they end with it.
    expect(processesSaying(`sleep\0${elders}`).length).toBe(1);
    await client.writeFile("go-elder", "");
    expect((await outcome(client, "elder")).status).toBe("passed");
    expect([...processesSaying(elders), ...processesSaying(own)]).toEqual([]);
  });

  it("are ended with a job that began first, when its leftovers are older than the other jobs", async () => {
    const { client } = guest;
    const token = sleepToken();
    await client.startJob("first", job(shell(`${flee(token)}; until [ -e go-first ]; do sleep 0.05; done`)));
    await lives(`sleep\0${token}`);
    // A look at processes has a resolution of ten milliseconds.
    await run(client, "pause", shell("sleep 0.1"));
    expect(processesSaying(`sleep\0${token}`).length).toBe(1);
    await client.startJob("second", job(shell("until [ -e go-second ]; do sleep 0.05; done")));
    await client.writeFile("go-first", "");
    await outcome(client, "first");
    expect(processesSaying(token)).toEqual([]);
    expect((await client.findJob("second"))?.status).toBe("running");
    await client.writeFile("go-second", "");
    expect((await outcome(client, "second")).status).toBe("passed");
  });

  it("are ended by the kernel before the guest when memory runs out", async () => {
    await run(guest.client, "memory", shell("sleep 0.5; cat /proc/self/oom_score_adj"));
    expect(await outputOf(guest.client, "memory")).toBe("500\n");
    expect(readFileSync(`/proc/${guest.process.pid}/oom_score_adj`, "utf8").trim()).not.toBe("500");
  });
});
