import { createSandboxReconciler } from "../src/sandbox-lifecycle/upkeep/reconcile-sandboxes.ts";
import { choreFunction, type Flow } from "./flow.ts";

export const sandboxReconcile = (flow: Flow) => {
  const reconciler = createSandboxReconciler(flow.ports, [flow.defaultDriver]);
  return choreFunction(flow, {
    id: "sandbox-reconcile",
    name: "Sandboxes: make database and drivers agree",
    trigger: "sandbox/reconcile.due",
    run: ({ step }) => step("compare", () => reconciler.reconcile()),
  });
};
