import { describe, expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("many jobs at once", () => {
  const fixture = eachBuildFixture();

  it("never exceed Node's limit of listeners", { timeout: 120_000 }, async () => {
    const warnings: string[] = [];
    const listen = (warning: Error) => void warnings.push(`${warning.name}: ${warning.message}`);
    process.on("warning", listen);
    const count = 14;
    // Each continues once all of them are running.
    const run = (index: number) =>
      `echo > begun-${index}; until [ "$(ls ../*/begun-* | wc -l)" -ge ${count} ]; do sleep 0.1; done`;
    const tasks = Array.from({ length: count }, (_, index) => ({ id: `t${index}`, run: run(index) }));
    const limits = { maxParallelTasks: count, tasksPerAgentPerWave: count };
    const build = await fixture.build({ limits, gates: { testing: false, critic: false, integration: false }, tasks });
    process.off("warning", listen);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(warnings).toEqual([]);
  });
});
