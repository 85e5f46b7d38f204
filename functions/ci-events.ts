import { withForgeLog } from "../src/coordinator/outside/fetch-log.ts";
import { settleCheck } from "../src/coordinator/outside/settle-check.ts";
import { takeSuite } from "../src/coordinator/outside/take-suite.ts";
import type { CheckCompleted, SuiteCompleted } from "./events.ts";
import { type Flow, type FlowFunction, flowFunction } from "./flow.ts";

/** A function that acts on a report of a CI system. */
const onReport = <Data extends CheckCompleted | SuiteCompleted>(
  flow: Flow,
  options: Pick<FlowFunction<Data>, "id" | "name" | "trigger">,
  { doing, deed }: { doing: string; deed: (data: Data) => Promise<string> },
) =>
  flowFunction<Data>(flow, {
    ...options,
    ...{ decides: true, outlastsForge: true },
    run: async ({ data, step }) => {
      const { buildId, name, conclusion } = data;
      return { buildId, name, conclusion, answer: await step(doing, () => deed(data)) };
    },
  });

export const ciEvents = (flow: Flow) => [
  onReport<CheckCompleted>(
    flow,
    { id: "check-settle", name: "CI: a check ended", trigger: "ci/check.completed" },
    {
      doing: "give a failure to the fixer",
      deed: async (data) => settleCheck(flow.ports, await withForgeLog(flow.ports, data)),
    },
  ),
  onReport<SuiteCompleted>(
    flow,
    { id: "suite-take", name: "CI: a suite of checks ended", trigger: "ci/suite.completed" },
    { doing: "read its checks", deed: (data) => takeSuite(flow.ports, data) },
  ),
];
