import { checkSandboxes } from "../src/coordinator/watch-sandboxes.ts";
import { cronFunction, type Flow } from "./flow.ts";

export const sandboxHealth = (flow: Flow) =>
  cronFunction(flow, {
    id: "sandbox-health",
    name: "Sandboxes: see which are lost",
    cron: "* * * * *",
    run: ({ step }) => step("look at each one", () => checkSandboxes(flow.ports)),
  });
