import { failBuild } from "../src/coordinator/build/stop/fail-build.ts";
import { waveStatus } from "../src/coordinator/run-outcomes.ts";
import { joinWave } from "../src/coordinator/wave/join-wave.ts";
import { closeTreeOfWave } from "../src/coordinator/wave/shared-tree.ts";
import type { WaveEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const waveJoin = (flow: Flow) =>
  flowFunction<WaveEvent>(flow, {
    id: "wave-join",
    name: "Wave: join its branches",
    trigger: "agent/wave.complete",
    run: async ({ data: { buildId, waveNumber }, step }) => {
      const joining = `join the branches of wave ${waveNumber}`;
      const { shared, status } = await step(joining, async () => ({
        ...(await joinWave(flow.ports, buildId, waveNumber)),
        status: await waveStatus(flow.ports, buildId, waveNumber),
      }));
      if (shared) await step("close the tree they shared", () => closeTreeOfWave(flow.ports, buildId, waveNumber));
      return { buildId, wave: waveNumber, status };
    },
    failed: async ({ data: { buildId, waveNumber }, reason, step }) => {
      await step("fail the build", () => failBuild(flow.ports, buildId, reason));
      await step("close the tree they shared", () => closeTreeOfWave(flow.ports, buildId, waveNumber));
    },
  });
