import { closeAttempt } from "../src/coordinator/attempt/close-attempt.ts";
import { loseAttempt } from "../src/coordinator/attempt/lose-attempt.ts";
import { claimAttempt, startAttemptJob } from "../src/coordinator/attempt/start-attempt.ts";
import type { FixEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const gateFix = (flow: Flow) =>
  flowFunction<FixEvent>(flow, {
    id: "gate-fix",
    name: "Gate: hand its findings to the fixer",
    trigger: "agent/quality.fix",
    run: async ({ data, step }) => {
      const { ports } = flow;
      const { buildId, waveNumber, gate, round } = data;
      const facts = { buildId, wave: waveNumber, gate, round };
      const claiming = `claim fix ${round} of wave ${waveNumber}, for the ${gate} gate`;
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
