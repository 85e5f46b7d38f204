import { expect, it } from "vitest";
import { createBuildReader } from "../../src/coordinator/build/read-build.ts";
import type { Store } from "../../src/store/port.ts";
import { attempt, gate, plan, view, wave } from "./cli-views.ts";

it("shows a task at least as it was when its last attempt was settled", async () => {
  const { build, tasks } = view();
  const [member] = tasks;
  let isSettled = false;
  const none = { list: async () => [], pick: async () => [], find: async () => null };
  const task = () => ({
    ...member!,
    id: "task_1",
    waveId: "wave-1",
    position: 0,
    status: isSettled ? "failed" : "running",
  });
  const store = {
    builds: { get: async () => ({ ...build, plan }) },
    projects: { get: async () => ({ name: "shop" }) },
    waves: { list: async () => [wave({})] },
    waveTasks: { list: async () => [{ taskId: "task_1", waveId: "wave-1" }] },
    tasks: {
      pick: async () => {
        const rows = [task()];
        // The attempt and its task settle right after they were read here.
        isSettled = true;
        return rows;
      },
    },
    attempts: {
      pick: async () => {
        const row = { ...attempt({}), taskId: "task_1", waveId: "wave-1", verdict: null };
        return [isSettled ? { ...row, outcome: "failed" } : { ...row, status: "running", outcome: null }];
      },
    },
    jobs: { pick: async () => [] },
    gateRuns: none,
    findings: none,
    questions: none,
    messages: none,
    comments: none,
    sandboxes: none,
    buildSpending: none,
  } as unknown as Store;
  const reader = createBuildReader(store, build.id);
  await reader.read();
  isSettled = false;
  const read = await reader.read();
  const settled = read.waves[0]!.attempts[0]!.status === "settled";
  expect([settled, read.tasks[0]!.status]).not.toEqual([true, "running"]);
});

it("reads a build of many waves with as many statements as a build of one", async () => {
  expect(await statementsFor(40)).toBe(await statementsFor(1));
});

/**
 * Counts the statements that read a build with this many ended waves, and checks what they read.
 */
async function statementsFor(count: number): Promise<number> {
  const { build, tasks } = view();
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  let statements = 0;
  const answers = (rows: readonly object[]) => async () => {
    statements += 1;
    return [...rows];
  };
  const rowsOf = (show: (number: number) => object) => {
    const read = answers(numbers.map(show));
    return { list: read, pick: read, find: async () => null };
  };
  const none = { list: answers([]), pick: answers([]), find: async () => null };
  const store = {
    builds: { get: async () => ({ ...build, plan }) },
    projects: { get: async () => ({ name: "shop" }) },
    waves: rowsOf((number) => wave({ number, status: "passed" })),
    waveTasks: rowsOf((number) => ({ taskId: `task_${number}`, waveId: `wave-${number}` })),
    tasks: rowsOf((number) => ({ ...tasks[0]!, id: `task_${number}`, waveId: `wave-${number}`, position: number })),
    attempts: rowsOf((number) => ({
      ...{ ...attempt({ number }), taskId: `task_${number}`, waveId: `wave-${number}`, verdict: null },
    })),
    gateRuns: rowsOf((number) => ({ ...gate({}), id: `gate-${number}`, waveId: `wave-${number}` })),
    findings: none,
    jobs: none,
    questions: none,
    messages: none,
    comments: none,
    sandboxes: none,
    buildSpending: none,
  } as unknown as Store;
  const read = await createBuildReader(store, build.id).read();
  expect(read.waves.map(({ attempts, gates }) => [attempts.length, gates.length])).toEqual(numbers.map(() => [1, 1]));
  return statements;
}
