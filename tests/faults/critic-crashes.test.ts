import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { createStore } from "../../src/store/store.ts";
import { builtin } from "../support/agent-builds.ts";
import { checkDependencies, checkParallel, checkWaves, readEnded, readTree } from "../support/build-checks.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { checkRows, leftOn, locksIn } from "../support/crash-checks.ts";
import { type CrashPlace, crashCases, dieAt, processesOf } from "../support/crash-runs.ts";
import {
  type FakeAnswer,
  type FakeProviders,
  type FakeRequest,
  startFakeProviders,
} from "../support/fake-providers.ts";

// Kills a process (SIGKILL) around a model call, between the critic's two looks, or while it
// restores a task's paths in a shared tree; another one continues. tests/support/crash-runs.ts says
// how to try points by hand.

const program = await bundledProgram("critic-process");
const ofModels = /^(reserve-model-call|settle-model-call|ask-second-look|workspace\.restorePaths)\./;
const points = crashPoints.filter((point) => ofModels.test(point));
const tokens = 20_000_000;

const finding = { title: "Loses data", severity: "high", file: "b.txt", line: 1 };
/** Records each look; confirms its findings until somebody has fixed them. */
const critic = `cat > /dev/null
if grep -q '"kind": "second-look"' "$WAVESMITH_TASK_FILE"; then
  echo "look: second"
  echo '{"verdicts":[{"finding":1,"confirmed":true}]}' > "$WAVESMITH_RESULT_FILE"
else
  echo "look: first"
  if test -e mended; then found=; else found='${JSON.stringify(finding)}'; fi
  echo "{\\"findings\\":[$found]}" > "$WAVESMITH_RESULT_FILE"
fi`;
const isFirst = `grep -q '"attempt": 1,' "$WAVESMITH_TASK_FILE"`;

const plan = {
  name: "models",
  isolation: "shared",
  network: "none",
  limits: { budget: { tokens }, maxParallelTasks: 2, tasksPerAgentPerWave: 2 },
  agents: {
    backend: builtin,
    critic: { runtime: "command", command: critic },
    fixer: { runtime: "command", command: "cat > /dev/null; echo mended > mended" },
  },
  gates: { testing: false, integration: false },
  tasks: [
    { id: "a", agent: "backend", instructions: "write a.txt", writes: ["a.txt"], retries: 9 },
    {
      id: "b",
      agent: "frontend",
      run: `if ${isFirst}; then echo half > b.txt; exit 1; fi; echo b > b.txt`,
      writes: ["b.txt"],
      retries: 9,
    },
  ],
};

let providers: FakeProviders;
beforeAll(async () => {
  providers = await startFakeProviders(answer);
});
afterAll(() => providers.close());

/** Writes the file, then says so, whichever process talks to the model for the agent. */
function answer({ body }: FakeRequest): FakeAnswer {
  if (JSON.stringify(body?.messages ?? []).includes("tool_result")) return { text: "I wrote it." };
  return { tools: [{ name: "write_file", input: { path: "a.txt", content: "a\n" } }] };
}

describe("a process that is killed around a model's call or a critic's second look", () => {
  it("reaches each of the listed points", { timeout: 900_000 }, async () => {
    expect(await atAll([])).toEqual([...points].sort());
  });

  it.each(crashCases(points, 8, 2))(
    "is continued by another to the same end, with every call counted: $named",
    { timeout: 1_800_000 },
    async ({ points: some }) => {
      await atAll(some);
    },
  );
});

/** Runs one build that dies at all of these points; resolves with those of them that it reached. */
async function atAll(some: readonly string[]): Promise<string[]> {
  const before = providers.requests.length;
  const fired = await dieAt(some, {
    program,
    more: { plan },
    env: { ANTHROPIC_API_KEY: "real-key", ANTHROPIC_BASE_URL: providers.url },
    test: "tests/faults/critic-crashes.test.ts",
    async check(place, lines) {
      const said = lines.flatMap((line) => (line.type === "warning" ? line.message : []));
      const looks = said.filter((message) => message.startsWith("looks:"));
      expect(looks, "no look is done twice").toEqual(["looks: first second first"]);
      await checkEnd(place, providers.requests.length - before);
    },
  });
  return fired.filter((point) => points.includes(point));
}

async function checkEnd({ dataDir, project, database }: CrashPlace, requests: number): Promise<void> {
  const projectId = projectIdFor("default", project);
  const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
  const repository = join(dataDir, "repositories", `${projectId}.git`);
  const store = createStore(database.pool);
  const ended = await readEnded(store, repository, buildId);
  const tree = { "a.txt": "a\n", "b.txt": "b\n", mended: "mended\n" };
  expect(Object.fromEntries(readTree(repository, "main"))).toEqual(tree);
  for (const check of [checkDependencies, checkWaves, checkParallel]) check(ended);
  const calls = await store.modelCalls.list({ buildId });
  expect(requests, "no call is made that is not reserved").toBeLessThanOrEqual(calls.length);
  const spending = await store.buildSpending.get({ buildId });
  const sum = (counted: (call: (typeof calls)[number]) => number): number =>
    calls.reduce((total, call) => total + counted(call), 0);
  expect(spending.reservedTokens).toBe(sum((call) => (call.status === "open" ? call.reservedTokens : 0)));
  const spent = ({ status, inputTokens, outputTokens, reservedTokens }: (typeof calls)[number]): number => {
    if (status === "open" || status === "failed") return 0;
    return inputTokens === null ? reservedTokens : inputTokens + outputTokens!;
  };
  expect(spending.spentTokens).toBe(sum(spent));
  expect(spending.spentTokens + spending.reservedTokens).toBeLessThanOrEqual(tokens);
  await checkRows(database, store);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  expect(leftOn(join(dataDir, "volumes", projectId), buildId)).toEqual([]);
  expect(locksIn(repository)).toEqual([]);
}
