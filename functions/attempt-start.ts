import type { InngestFunction } from "inngest";
import { closeAttempt } from "../src/coordinator/attempt/close-attempt.ts";
import { loseAttempt } from "../src/coordinator/attempt/lose-attempt.ts";
import { claimAttempt, startAttemptJob } from "../src/coordinator/attempt/start-attempt.ts";
import type { FixEvent } from "./events.ts";
import { type Flow, type FlowFunction, flowFunction } from "./flow.ts";

interface AttemptStart<Data> extends Pick<FlowFunction<Data>, "id" | "name" | "trigger"> {
  /** The name of the step that claims the attempt. */
  readonly claiming: (data: Data) => string;
  /** The fields of the run's output that identify the attempt. */
  readonly facts: (data: Data) => object;
}

/** A function that claims an attempt and starts its job. */
export function attemptStart<Data extends Pick<FixEvent, "buildId" | "attemptId" | "fence">>(
  flow: Flow,
  { claiming, facts, ...names }: AttemptStart<Data>,
): InngestFunction.Any {
  const { ports } = flow;
  return flowFunction<Data>(flow, {
    ...names,
    run: async ({ data, step }) => {
      const claimed = await step(claiming(data), () => claimAttempt(ports, data));
      if (!claimed) return { ...facts(data), stale: true };
      const started = await step("start its job on a clean tree", () => startAttemptJob(ports, data));
      if (!started) await step("close the tree", () => closeAttempt(ports, data));
      return { ...facts(data), started };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the attempt as lost", () => loseAttempt(ports, data, reason));
      await step("close the tree", () => closeAttempt(ports, data));
    },
  });
}
