import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";

// A second build of a project, as a user types it.

const limitMs = 120_000;
const buildIdIn = (text: string): string => /bld_\w+/.exec(text)![0];
const lastObject = (text: string): Record<string, unknown> => JSON.parse(text.trimEnd().split("\n").at(-1)!);

describe("a second build while the first one waits for a person", { timeout: limitMs }, () => {
  let place: CommandPlace;
  beforeAll(() => {
    place = createCommandPlace();
  });
  afterAll(() => place.close());

  it("ends with exit 5, names the decision and the commands for it, and runs after it", async () => {
    const plan = place.plan("shop", [{ id: "a", run: "date +%s%N > a" }], { approval: "wave" });
    const first = await place.run("build", plan);
    expect(first.code).toBe(5);
    const ahead = buildIdIn(first.text);
    const second = await place.run("build", plan);
    expect(second.code).toBe(5);
    const id = buildIdIn(second.text);
    expect(second.text).toContain(
      `build ${id} is queued: build ${ahead} of this project comes first, and wave 1 is waiting for approval`,
    );
    expect(second.text).toContain(`wavesmith approve ${ahead}`);
    expect(second.text).toContain(`then: wavesmith resume ${id}`);
    const early = await place.run("approve");
    expect(early.code).toBe(1);
    expect(early.text).toContain(`build ${id} is queued: build ${ahead} of its project comes first, and is waiting`);
    expect(early.text).toContain(`name that build; wavesmith status ${ahead} `);
    const third = await place.run("build", plan, "--json");
    expect(third.code).toBe(5);
    expect(lastObject(third.text)).toMatchObject({
      type: "build.finished",
      status: "waiting",
      waitsFor: { buildId: ahead, reason: "wave 1 is waiting for approval" },
    });
    expect((await place.run("approve", ahead)).code).toBe(0);
    expect((await place.run("resume", ahead)).code).toBe(0);
    expect((await place.run("cancel", String(lastObject(third.text).buildId))).code).toBe(0);
    const resumed = await place.run("resume", id);
    expect([resumed.code, resumed.text]).toEqual([5, expect.stringContaining(`wavesmith approve ${id}`)]);
    // The latest build is the third, which was cancelled.
    expect((await place.run("approve")).text).toContain("is cancelled: no wave of it is waiting for a decision");
    const approved = await place.run("approve", id.slice(4, 10), "--resume");
    expect([approved.code, approved.text]).toEqual([0, expect.stringContaining(`build ${id} completed`)]);
    const stat = await place.run("diff", id, "--stat");
    expect(stat.text).toMatch(/^a +\+1 -1\n1 file changed, \+1 -1\n$/);
  });

  it("stops its sandbox though nobody reads its summary any more", async () => {
    const plan = place.plan("unread", [{ id: "a", run: "echo a > a" }]);
    const command = place.start("build", plan);
    await command.said("wave 1: passed");
    command.child.stdout!.destroy();
    await command.ended;
    const { text } = await place.run("sandbox", "ls");
    expect(text).toMatch(/^unread .* stopped \(no longer used\)/m);
  });
});
