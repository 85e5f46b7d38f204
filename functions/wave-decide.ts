import { approveWave, rejectWave } from "../src/coordinator/wave/decide-wave.ts";
import type { WaveApproved, WaveRejected } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

const aboutOf = ({ waveNumber, sha }: WaveApproved) => ({ waveNumber, sha: sha ?? null });

export const waveDecides = (flow: Flow) => [
  flowFunction<WaveApproved>(flow, {
    id: "wave-approve",
    name: "Wave: a person approved it",
    trigger: "project/wave.approved",
    decides: true,
    run: ({ data, step }) =>
      step(`approve wave ${data.waveNumber}`, () =>
        approveWave(flow.ports, data.buildId, { by: data.by ?? null, about: aboutOf(data) }),
      ),
  }),
  flowFunction<WaveRejected>(flow, {
    id: "wave-reject",
    name: "Wave: a person rejected it",
    trigger: "project/wave.rejected",
    decides: true,
    run: ({ data, step }) =>
      step(`reject wave ${data.waveNumber}`, () =>
        rejectWave(flow.ports, data.buildId, { by: data.by ?? null, reason: data.reason, about: aboutOf(data) }),
      ),
  }),
];
