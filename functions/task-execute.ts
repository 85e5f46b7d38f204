import { closeAttempt } from "../src/coordinator/attempt/close-attempt.ts";
import { loseAttempt } from "../src/coordinator/attempt/lose-attempt.ts";
import { claimAttempt, startAttemptJob } from "../src/coordinator/attempt/start-attempt.ts";
import type { ExecutionEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const taskExecute = (flow: Flow) =>
  flowFunction<ExecutionEvent>(flow, {
    id: "task-execute",
    name: "Task: hand it to its agent",
    trigger: "agent/execution.*",
    run: async ({ data, step }) => {
      const { ports } = flow;
      const { buildId, waveNumber, taskKey, attempt, role } = data;
      const facts = { buildId, wave: waveNumber, task: taskKey, attempt, role };
      const claiming = `claim attempt ${attempt} of ${taskKey} in wave ${waveNumber}`;
      const claimed = await step(claiming, () => claimAttempt(ports, data));
      if (!claimed) return { ...facts, stale: true };
      const started = await step("start its job on a clean tree", () => startAttemptJob(ports, data));
      if (!started) await step("close the tree", () => closeAttempt(ports, data));
      return { ...facts, started };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the attempt as lost", () => loseAttempt(flow.ports, data, reason));
      await step("close the tree", () => closeAttempt(flow.ports, data));
    },
  });
