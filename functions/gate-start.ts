import { closeGate } from "../src/coordinator/gate/close-gate.ts";
import { loseGate } from "../src/coordinator/gate/lose-gate.ts";
import { claimGate, startGateJob } from "../src/coordinator/gate/start-gate.ts";
import type { GateName } from "../src/domain/status.ts";
import type { GateEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

const gateStart = (flow: Flow, gate: GateName) =>
  flowFunction<GateEvent>(flow, {
    id: `gate-start-${gate}`,
    name: `Gate: run ${gate} on a clean tree`,
    trigger: `agent/quality.${gate}`,
    run: async ({ data, step }) => {
      const { buildId, waveNumber, sha } = data;
      const facts = { buildId, wave: waveNumber, gate, sha };
      const claimed = await step(`claim the ${gate} gate of wave ${waveNumber}`, () => claimGate(flow.ports, data));
      if (!claimed) return { ...facts, stale: true };
      const started = await step("start its job on a clean tree", () => startGateJob(flow.ports, data));
      if (!started) await step("close the tree", () => closeGate(flow.ports, data));
      return { ...facts, started };
    },
    failed: async ({ data, reason, step }) => {
      await step("settle the gate run as lost", () => loseGate(flow.ports, data, reason));
      await step("close the tree", () => closeGate(flow.ports, data));
    },
  });

export const gateStarts = (flow: Flow) => [
  gateStart(flow, "testing"),
  gateStart(flow, "critic"),
  gateStart(flow, "integration"),
];
