import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createStore } from "../../src/store/store.ts";
import { checkParallel, checkWaves, gitIn, readEnded, readTree } from "../support/build-checks.ts";
import type { BuildProcessInput, BuildProcessLine } from "../support/build-process.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { testDatabase } from "../support/database.ts";
import { linesUntilKilled } from "../support/json-process.ts";
import { createRandom, seedsToTry } from "../support/random-plan.ts";

// Tasks that share a tree, and an orchestrator that is killed at crash points, by number. To run
// more: WAVESMITH_SEEDS=1-30 npx vitest run tests/e2e/kill-shared.test.ts

const program = await bundledProgram("build-process");

const isFirst = `grep -q '"attempt": 1,' "$WAVESMITH_TASK_FILE"`;
const own = (key: string): string => `mkdir ${key}; echo ${key} > ${key}/file; sleep 0.2`;

const plan = {
  name: "killed",
  isolation: "shared",
  limits: { maxParallelTasks: 2, tasksPerAgentPerWave: 4 },
  setup: { run: "mkdir -p .git/made; sleep 0.1" },
  tasks: [
    {
      id: "one",
      writes: ["one/**"],
      run: `${own("one")}; cat two/file > one/seen 2> /dev/null || echo none > one/seen`,
    },
    {
      id: "two",
      writes: ["two/**"],
      retries: 1,
      run: `${own("two")}; ${isFirst} && { echo half > two/half; exit 1; }; true`,
    },
    { id: "three", writes: ["three/**"], run: own("three") },
    { id: "open", dependsOn: ["one"], run: "cat one/file two/file three/file > all" },
  ],
};

describe("a build whose tasks share trees, and whose process is killed", () => {
  it.each(seedsToTry([401, Math.trunc(Date.now() / 1000) % 1_000_000]).map((seed) => ({ seed })))(
    "comes to the end it would have had, with every attempt's work kept and no tree left: WAVESMITH_SEEDS=$seed",
    { timeout: 240_000 },
    async ({ seed }) => {
      const random = createRandom(seed);
      const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-kill-"));
      const database = await testDatabase();
      const project = basename(dataDir).toLowerCase();
      const place = { WAVESMITH_DATA: dataDir, DATABASE_URL: database.url };
      try {
        const lines: BuildProcessLine[] = [];
        for (let kill = 0; kill < 5; kill += 1) {
          const crashAt = random.between(10, 120);
          lines.push(...(await run(place, { project, plan, crashAt })));
        }
        lines.push(...(await run(place, { project, plan, crashAt: null })));
        const { buildId, projectId } = lines.find((line) => line.type === "started")!;
        const repository = join(dataDir, "repositories", `${projectId}.git`);
        const ended = await readEnded(createStore(database.pool), repository, buildId);
        const details = JSON.stringify({ lines, attempts: ended.attempts }, null, 1);
        expect(lines.at(-1), details).toMatchObject({ type: "ended", status: "completed" });
        for (const check of [checkWaves, checkParallel]) check(ended);
        const tree = Object.fromEntries(readTree(repository, "main"));
        const { "one/seen": seen, ...rest } = tree;
        expect(["two\n", "none\n"]).toContain(seen);
        expect(rest).toEqual({
          all: "one\ntwo\nthree\n",
          "one/file": "one\n",
          "two/file": "two\n",
          "three/file": "three\n",
        });
        const refs = gitIn(repository, ["for-each-ref", "--format=%(refname:short)"]).toString().trim().split("\n");
        expect(refs.filter((ref) => ref.includes("leftovers"))).toEqual([]);
        for (const attempt of ended.attempts.filter((one) => one.commitSha !== null && one.taskId !== null)) {
          const { key, definition } = ended.tasks.find((task) => task.id === attempt.taskId)!;
          const args = ["diff-tree", "-r", "--name-only", "--no-commit-id", attempt.commitSha!];
          const changed = gitIn(repository, args).toString().trim().split("\n");
          if (definition.writes !== null) expect(changed.filter((path) => !path.startsWith(`${key}/`))).toEqual([]);
        }
        const failed = ended.attempts.filter((attempt) => attempt.outcome === "failed");
        expect(failed.map((attempt) => readTree(repository, attempt.commitSha!).get("two/half"))).toEqual(["half\n"]);
        const trees = join(dataDir, "volumes", projectId, "trees", buildId);
        expect(readdirSync(trees, { withFileTypes: true }).map((entry) => entry.name)).toEqual([]);
      } finally {
        await database.close();
        rmSync(dataDir, { recursive: true, force: true });
      }
    },
  );
});

const run = (place: Record<string, string>, input: BuildProcessInput): Promise<BuildProcessLine[]> =>
  linesUntilKilled({ program, input, env: place });
