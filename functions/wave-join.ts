import { joinWave } from "../src/coordinator/join-wave.ts";
import { failBuild } from "../src/coordinator/start-build.ts";
import type { WaveEvent } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const waveJoin = (flow: Flow) =>
  flowFunction<WaveEvent>(flow, {
    id: "wave-join",
    name: "Wave: join its branches",
    trigger: "agent/wave.complete",
    run: ({ data, step }) =>
      step(`join the branches of wave ${data.waveNumber}`, () => joinWave(flow.ports, data.buildId, data.waveNumber)),
    failed: ({ data, reason, step }) => step("fail the build", () => failBuild(flow.ports, data.buildId, reason)),
  });
