import { joinWave } from "../src/coordinator/join-wave.ts";
import { closeTreeOfWave } from "../src/coordinator/shared-tree.ts";
import { failBuild } from "../src/coordinator/start-build.ts";
import type { WaveEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const waveJoin = (flow: Flow) =>
  flowFunction<WaveEvent>(flow, {
    id: "wave-join",
    name: "Wave: join its branches",
    trigger: "agent/wave.complete",
    run: async ({ data: { buildId, waveNumber }, step }) => {
      const joining = `join the branches of wave ${waveNumber}`;
      const { shared } = await step(joining, () => joinWave(flow.ports, buildId, waveNumber));
      if (!shared) return;
      await step("close the tree they shared", () => closeTreeOfWave(flow.ports, buildId, waveNumber));
    },
    failed: async ({ data: { buildId, waveNumber }, reason, step }) => {
      await step("fail the build", () => failBuild(flow.ports, buildId, reason));
      await step("close the tree they shared", () => closeTreeOfWave(flow.ports, buildId, waveNumber));
    },
  });
