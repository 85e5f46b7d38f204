import { checkSandboxes } from "../src/sandbox-lifecycle/upkeep/sandbox-health.ts";
import { choreFunction, type Flow } from "./flow.ts";

export const sandboxHealth = (flow: Flow) =>
  choreFunction(flow, {
    id: "sandbox-health",
    name: "Sandboxes: see which are lost",
    trigger: "sandbox/check.due",
    run: ({ step }) => step("look at each one", () => checkSandboxes(flow.ports)),
  });
