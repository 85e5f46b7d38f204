import { closeGate } from "../src/coordinator/gate/close-gate.ts";
import { finishGate } from "../src/coordinator/gate/finish-gate.ts";
import { loseGate } from "../src/coordinator/gate/lose-gate.ts";
import { gateVerdict } from "../src/coordinator/run-outcomes.ts";
import type { GateFinished } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const gateFinish = (flow: Flow) =>
  flowFunction<GateFinished>(flow, {
    id: "gate-finish",
    name: "Gate: judge the evidence",
    trigger: "agent/gate.finished",
    run: async ({ data, step }) => {
      const { buildId, waveNumber, gate, sha, gateRunId } = data;
      const verdict = await step(`judge the ${gate} gate of wave ${waveNumber}`, async () => {
        await finishGate(flow.ports, data);
        return gateVerdict(flow.ports, gateRunId);
      });
      await step("close the tree", () => closeGate(flow.ports, data));
      return { buildId, wave: waveNumber, gate, sha, verdict };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the gate run as lost", () => loseGate(flow.ports, data, reason));
      await step("close the tree", () => closeGate(flow.ports, data));
    },
  });
