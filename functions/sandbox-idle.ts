import { sleepIdlePreviews } from "../src/coordinator/preview/sleep-preview.ts";
import { stopIdleSandboxes } from "../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import { choreFunction, type Flow } from "./flow.ts";

export const sandboxIdle = (flow: Flow) =>
  choreFunction(flow, {
    id: "sandbox-idle",
    name: "Sandboxes: stop those that nobody uses",
    trigger: "sandbox/idle.due",
    run: async ({ step }) => {
      await step("put previews to sleep", () => sleepIdlePreviews(flow.ports));
      return step("stop idle ones", () => stopIdleSandboxes(flow.ports));
    },
  });
