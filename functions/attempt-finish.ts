import { closeAttempt } from "../src/coordinator/attempt/close-attempt.ts";
import { finishAttempt } from "../src/coordinator/attempt/finish-attempt.ts";
import { loseAttempt } from "../src/coordinator/attempt/lose-attempt.ts";
import { attemptOutcome } from "../src/coordinator/run-outcomes.ts";
import type { AttemptFinished } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const attemptFinish = (flow: Flow) =>
  flowFunction<AttemptFinished>(flow, {
    id: "attempt-finish",
    name: "Task: keep the work and settle the outcome",
    trigger: "agent/attempt.finished",
    run: async ({ data, step }) => {
      const { ports } = flow;
      const { buildId, waveNumber, taskKey, kind, attempt, attemptId } = data;
      const keeping = `keep attempt ${attempt} of ${taskKey ?? kind} in wave ${waveNumber} and settle its outcome`;
      const outcome = await step(keeping, async () => {
        await finishAttempt(ports, data);
        return attemptOutcome(ports, attemptId);
      });
      await step("close the tree", () => closeAttempt(ports, data));
      return { buildId, wave: waveNumber, task: taskKey, kind, attempt, outcome };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the attempt as lost", () => loseAttempt(flow.ports, data, reason));
      await step("close the tree", () => closeAttempt(flow.ports, data));
    },
  });
