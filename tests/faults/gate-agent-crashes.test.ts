import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { createStore } from "../../src/store/store.ts";
import { checkDependencies, checkWaves, readEnded, readTree } from "../support/build-checks.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { checkRows, leftOn, locksIn } from "../support/crash-checks.ts";
import { type CrashPlace, crashCases, dieAt, processesOf } from "../support/crash-runs.ts";

// Kills a process (SIGKILL) right before a gate's agent is asked, or before the checks that it
// added are run; another one continues. tests/support/crash-runs.ts says how to try points by hand.

const program = await bundledProgram("critic-process");
const points = crashPoints.filter((point) => /^(ask-gate-agent|run-added-checks)\./.test(point));

/** Each prints that it ran. */
const check = { name: "mended", command: "echo look: ran; test -e mended", why: "the task says so" };
const tester = `cat > /dev/null; echo "look: asked"
echo '${JSON.stringify({ checks: [check] })}' > "$WAVESMITH_RESULT_FILE"`;

const plan = {
  name: "gates",
  network: "none",
  agents: {
    tester: { runtime: "command", command: tester },
    fixer: { runtime: "command", command: "cat > /dev/null; echo mended > mended" },
  },
  gates: { testing: { command: "echo 1..1; echo ok 1", agent: "tester" }, critic: false, integration: false },
  tasks: [{ id: "a", run: "echo a > a.txt" }],
};

describe("a process that is killed between the parts of a gate with an agent", () => {
  it("reaches each of the listed points", { timeout: 900_000 }, async () => {
    expect(await atAll([])).toEqual([...points].sort());
  });

  it.each(crashCases(points, 4))(
    "is continued by another to the same end, and nothing is asked or run twice: $named",
    { timeout: 1_800_000 },
    async ({ points: some }) => {
      await atAll(some);
    },
  );
});

/** Runs one build that dies at all of these points; resolves with those of them that it reached. */
async function atAll(some: readonly string[]): Promise<string[]> {
  const fired = await dieAt(some, {
    program,
    more: { plan },
    test: "tests/faults/gate-agent-crashes.test.ts",
    async check(place, lines) {
      const said = lines.flatMap((line) => (line.type === "warning" ? line.message : []));
      const looks = said.filter((message) => message.startsWith("looks:"));
      expect(looks, "one question, and the check once for each head").toEqual(["looks: asked ran ran"]);
      await checkEnd(place);
    },
  });
  return fired.filter((point) => points.includes(point));
}

async function checkEnd({ dataDir, project, database }: CrashPlace): Promise<void> {
  const projectId = projectIdFor("default", project);
  const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
  const repository = join(dataDir, "repositories", `${projectId}.git`);
  const store = createStore(database.pool);
  const ended = await readEnded(store, repository, buildId);
  expect(Object.fromEntries(readTree(repository, "main"))).toEqual({ "a.txt": "a\n", mended: "mended\n" });
  for (const holds of [checkDependencies, checkWaves]) holds(ended);
  const runs = await store.gateRuns.list({ buildId, gate: "testing" }, { by: "round" });
  expect(runs.map(({ verdict }) => verdict)).toEqual(["failed", "passed"]);
  expect(runs.map(({ evidence }) => evidence?.added)).toMatchObject([
    { phase: null, asked: true, checks: [{ ...check, result: { outcome: "failed", exitCode: 1 } }] },
    { phase: null, asked: false, checks: [{ ...check, result: { outcome: "passed", exitCode: 0 } }] },
  ]);
  expect(await store.findings.list({ gateRunId: runs.map(({ id }) => id), rule: "added-check" })).toHaveLength(1);
  await checkRows(database, store);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  expect(leftOn(join(dataDir, "volumes", projectId), buildId)).toEqual([]);
  expect(locksIn(repository)).toEqual([]);
}
