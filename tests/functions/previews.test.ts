import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const serve = `node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;

describe("a preview", () => {
  let fixture: BuildFixture;
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(async () => {
    atPoint = () => undefined;
    fixture = await createBuildFixture({ crashPoint: (name) => atPoint(name) });
  });
  afterEach(async () => {
    await fixture.close();
  });

  const statusOf = async (buildId: string) => (await fixture.app.store.previews.find({ buildId }))?.status ?? null;
  const plan = (id: string) => ({ preview: { command: serve }, tasks: [{ id, run: `echo ${id} > ${id}` }] });

  it("gives way to that of a later build of the project, which runs in the same tree", async () => {
    const first = await fixture.build(plan("a"));
    await fixture.until(first.id, async () => (await statusOf(first.id)) === "ready");
    const second = await fixture.build(plan("b"));
    expect([second.status, second.reason]).toEqual(["completed", null]);
    await fixture.until(second.id, async () => (await statusOf(second.id)) === "ready");
    expect(await statusOf(first.id)).toBe("stopped");
    const running = await fixture.app.store.jobs.list({ ownerKind: "preview", status: "running" });
    expect(running.map((job) => job.buildId)).toEqual([second.id]);
  });

  it("is started although whoever was to start it died between saying so and doing it", async () => {
    atPoint = (name) => {
      if (name !== "preview-intend.after-commit") return;
      atPoint = () => undefined;
      throw new Error("killed");
    };
    const build = await fixture.build(plan("a"));
    expect(build.status).toBe("completed");
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "ready");
  });
});
