import { expect, it } from "vitest";
import { createBuildReader } from "../../src/coordinator/build/read-build.ts";
import type { Store } from "../../src/store/port.ts";
import { attempt, plan, view, wave } from "./cli-views.ts";

it("shows a task at least as it was when its last attempt was settled", async () => {
  const { build, tasks } = view();
  const [member] = tasks;
  let isSettled = false;
  const none = { list: async () => [], find: async () => null };
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
    waveTasks: { list: async () => [{ taskId: "task_1" }] },
    tasks: {
      list: async () => {
        const rows = [task()];
        // The attempt and its task are settled as soon as somebody has checked it.
        isSettled = true;
        return rows;
      },
    },
    attempts: {
      list: async () => {
        const row = { ...attempt({}), taskId: "task_1", verdict: null };
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
