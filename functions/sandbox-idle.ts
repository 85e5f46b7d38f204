import { stopIdleSandboxes } from "../src/coordinator/idle-sandboxes.ts";
import { cronFunction, type Flow } from "./flow.ts";

export const sandboxIdle = (flow: Flow) =>
  cronFunction(flow, {
    id: "sandbox-idle",
    name: "Sandboxes: stop those that nobody uses",
    cron: "* * * * *",
    run: ({ step }) => step("stop idle ones", () => stopIdleSandboxes(flow.ports)),
  });
