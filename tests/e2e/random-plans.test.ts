import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  checkAttempts,
  checkDependencies,
  checkGenerated,
  checkParallel,
  checkRepository,
  checkTree,
  checkWaves,
  type Ended,
  leftOnVolume,
  readEnded,
  untilOver,
} from "../support/build-checks.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type RandomPlan, randomPlan, seedsToTry } from "../support/random-plan.ts";

// More: WAVESMITH_SEEDS=1-200 npx vitest run tests/e2e/random-plans.test.ts

describe("a random plan", () => {
  let fixture: BuildFixture;
  beforeEach(async () => {
    fixture = await createBuildFixture();
  });
  afterEach(async () => {
    await fixture.close();
  });

  it.each(seedsToTry([6, 37, 46, 55]).map((seed) => ({ seed })))(
    "ends as its oracle says, with every invariant of waves, attempts and the repository kept: WAVESMITH_SEEDS=$seed",
    { timeout: 120_000 },
    async ({ seed }) => {
      const made = randomPlan(seed);
      const buildId = await fixture.request(made.plan);
      await untilOver(fixture, buildId);
      const { store, ports } = fixture.app;
      const ended = await readEnded(store, ports.workspace.repositoryPath(fixture.projectId as never), buildId);
      checkStatuses(made, ended);
      checkTree(ended, made.treeOf(completedOf(ended)));
      for (const check of [
        checkDependencies,
        checkWaves,
        checkParallel,
        checkAttempts,
        checkRepository,
        checkGenerated,
      ]) {
        check(ended);
      }
      await expectEmptyVolume(buildId);
      expect(fixture.warnings).toEqual([]);
    },
  );

  async function expectEmptyVolume(buildId: string): Promise<void> {
    const { sandboxDriver } = await fixture.app.store.builds.get({ id: buildId });
    const { guest } = (await fixture.app.ports.driver(sandboxDriver).find(fixture.projectId as never))!;
    await expect.poll(() => leftOnVolume(guest, buildId), { timeout: 10_000 }).toEqual([]);
  }
});

const completedOf = ({ tasks }: Ended): Set<string> =>
  new Set(tasks.filter((task) => task.status === "completed").map((task) => task.key));

function checkStatuses({ tasks, onTaskFailure }: RandomPlan, ended: Ended): void {
  const { build } = ended;
  const found = Object.fromEntries(ended.tasks.map((task) => [task.key, task.status]));
  const failing = tasks.some((task) => task.fate === "fails");
  expect(build.status, build.reason ?? "").toBe(failing ? "failed" : "completed");
  if (onTaskFailure === "continue" || !failing) {
    const expected: Record<string, string> = {};
    for (const { key, fate, dependsOn } of tasks) {
      const blocked = dependsOn.some((needed) => expected[needed] !== "completed");
      expected[key] = blocked ? "skipped" : fate === "fails" ? "failed" : "completed";
    }
    expect(found).toEqual(expected);
    return;
  }
  // Its waves show how far it came: the last one has a failed task, and those before have none.
  const last = Math.max(...ended.members.keys());
  const fateOf = new Map(tasks.map((task) => [task.key, task.fate]));
  for (const [number, keys] of ended.members) {
    const failed = keys.filter((key) => found[key] === "failed");
    expect(failed.length > 0, `wave ${number} has a failed task`).toBe(number === last);
    for (const key of failed) expect(fateOf.get(key)).toBe("fails");
  }
  for (const { key, fate } of tasks) {
    expect(fate === "fails" ? ["failed", "pending"] : ["completed", "pending"], key).toContain(found[key]);
  }
}
