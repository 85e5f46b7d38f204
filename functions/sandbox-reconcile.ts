import { createSandboxReconciler } from "../src/coordinator/reconcile-sandboxes.ts";
import { cronFunction, type Flow } from "./flow.ts";

export const sandboxReconcile = (flow: Flow) => {
  const reconciler = createSandboxReconciler(flow.ports, [flow.defaultDriver]);
  return cronFunction(flow, {
    id: "sandbox-reconcile",
    name: "Sandboxes: make database and drivers agree",
    cron: "*/5 * * * *",
    run: ({ step }) => step("compare", () => reconciler.reconcile()),
  });
};
