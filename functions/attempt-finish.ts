import { closeAttempt, finishAttempt, loseAttempt } from "../src/coordinator/finish-attempt.ts";
import type { AttemptFinished } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const attemptFinish = (flow: Flow) =>
  flowFunction<AttemptFinished>(flow, {
    id: "attempt-finish",
    name: "Task: keep the work and settle the outcome",
    trigger: "agent/attempt.finished",
    run: async ({ data, step }) => {
      const { ports } = flow;
      await step("keep the work on its branch and settle the outcome", () => finishAttempt(ports, data));
      await step("close the tree", () => closeAttempt(ports, data));
      return { task: data.taskKey, attempt: data.attempt };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the attempt as lost", () => loseAttempt(flow.ports, data, reason));
      await step("close the tree", () => closeAttempt(flow.ports, data));
    },
  });
