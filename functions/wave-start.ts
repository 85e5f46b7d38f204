import { prepareRepository, prepareSandbox } from "../src/coordinator/build/prepare-build.ts";
import { failBuild } from "../src/coordinator/build/stop/fail-build.ts";
import { startWave } from "../src/coordinator/wave/start-wave.ts";
import type { WaveEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const waveStart = (flow: Flow) =>
  flowFunction<WaveEvent>(flow, {
    id: "wave-start",
    name: "Wave: choose tasks and hand them out",
    trigger: "agent/wave.start",
    run: async ({ data, step }) => {
      const { ports } = flow;
      await step("ready the repository", () => prepareRepository(ports, data.buildId));
      await step("ready the sandbox", () => prepareSandbox(ports, data.buildId));
      await step(`open wave ${data.waveNumber}`, () => startWave(ports, data.buildId, data.waveNumber));
      return { buildId: data.buildId, wave: data.waveNumber };
    },
    failed: ({ data, reason, step }) => step("fail the build", () => failBuild(flow.ports, data.buildId, reason)),
  });
