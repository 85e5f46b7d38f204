import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { checkAttempts, checkDependencies, checkRepository, readEnded, untilOver } from "../support/build-checks.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { firstParents, git, type HistoryOptions, historyPlan, makeOddHistory } from "../support/history-plan.ts";
import { seedsToTry } from "../support/random-plan.ts";

// More: WAVESMITH_SEEDS=1-50 npx vitest run tests/e2e/histories.test.ts, and WAVESMITH_HISTORY=40
// for more of our own.

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("a git history turned into a plan", () => {
  it.each(seedsToTry([1, 2]).map((seed) => ({ seed })))(
    "ends with the very tree of its last commit, odd names, modes, links and binaries included: WAVESMITH_SEEDS=$seed",
    { timeout: 300_000 },
    async ({ seed }) => {
      const folder = mkdtempSync(join(tmpdir(), "wavesmith-history-"));
      try {
        const commits = makeOddHistory(seed, folder, 10);
        await expectSameTree(folder, { commits, from: null, dependencies: "touched" });
        const [from, ...rest] = commits.slice(6);
        await expectSameTree(folder, { commits: rest, from: from!, dependencies: "chain" });
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );

  it("ends with the very tree of this repository's last commit", { timeout: 600_000 }, async (context) => {
    const commits = ownHistory();
    if (commits === null) return context.skip();
    const most = Math.min(40, Number(process.env.WAVESMITH_HISTORY ?? 8));
    const from = commits.length > most ? commits.at(-most - 1)! : null;
    await expectSameTree(root, { commits: commits.slice(-most), from, dependencies: "touched" });
  });
});

/** Null, with a loud message, in a package without its history. */
function ownHistory(): string[] | null {
  try {
    const shallow = git(root, "rev-parse", "--is-shallow-repository").toString().trim() === "true";
    const commits = shallow ? [] : firstParents(root);
    if (commits.length >= 3) return commits;
    console.warn(`SKIPPED: the history of ${root} ${shallow ? "is shallow" : "is too short"}`);
  } catch (error) {
    console.warn(`SKIPPED: ${root} has no history: ${String(error)}`);
  }
  return null;
}

async function expectSameTree(repository: string, options: HistoryOptions): Promise<void> {
  const fixture = await createBuildFixture();
  try {
    const buildId = await fixture.request(historyPlan(repository, options));
    const build = await untilOver(fixture, buildId, 60_000 + options.commits.length * 10_000);
    const failed = await fixture.app.store.attempts.list({ buildId: build.id, outcome: ["failed", "refused", "lost"] });
    const said = failed.map(({ ref, reason, outputTail }) => `${ref}: ${reason}\n${outputTail}`);
    expect([build.status, build.reason], said.join("\n")).toEqual(["completed", null]);
    const expected = git(repository, "rev-parse", `${options.commits.at(-1)}^{tree}`)
      .toString()
      .trim();
    const found = (await fixture.git("rev-parse", "main^{tree}")).trim();
    if (found !== expected) expect(await listing(fixture)).toBe(git(repository, "ls-tree", "-r", expected).toString());
    expect(found).toBe(expected);
    const authority = fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
    const ended = await readEnded(fixture.app.store, authority, build.id);
    for (const check of [checkDependencies, checkAttempts, checkRepository]) check(ended);
    expect(fixture.warnings).toEqual([]);
  } finally {
    await fixture.close();
  }
}

const listing = (fixture: BuildFixture): Promise<string> => fixture.git("ls-tree", "-r", "main");
