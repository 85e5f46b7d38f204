import { withForgeLog } from "../src/coordinator/outside/fetch-log.ts";
import { settleCheck } from "../src/coordinator/outside/settle-check.ts";
import type { CheckCompleted } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const checkSettle = (flow: Flow) =>
  flowFunction<CheckCompleted>(flow, {
    id: "check-settle",
    name: "CI: a check ended",
    trigger: "ci/check.completed",
    decides: true,
    run: async ({ data, step }) => {
      const { buildId, name, conclusion } = data;
      const answer = await step("give a failure to the fixer", async () =>
        settleCheck(flow.ports, await withForgeLog(flow.ports, data)),
      );
      return { buildId, name, conclusion, answer };
    },
  });
