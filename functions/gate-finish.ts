import { closeGate, finishGate, loseGate } from "../src/coordinator/finish-gate.ts";
import type { GateFinished } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const gateFinish = (flow: Flow) =>
  flowFunction<GateFinished>(flow, {
    id: "gate-finish",
    name: "Gate: judge the evidence",
    trigger: "agent/gate.finished",
    run: async ({ data, step }) => {
      await step(`judge the ${data.gate} gate`, () => finishGate(flow.ports, data));
      await step("close the tree", () => closeGate(flow.ports, data));
      return { gate: data.gate };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the gate run as lost", () => loseGate(flow.ports, data, reason));
      await step("close the tree", () => closeGate(flow.ports, data));
    },
  });
