import { failDelivery, finishDelivery, moveMain, refreshJoinedTree } from "../src/coordinator/wave/deliver-wave.ts";
import type { WavePassed } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const waveDeliver = (flow: Flow) =>
  flowFunction<WavePassed>(flow, {
    id: "wave-deliver",
    name: "Wave: deliver to main",
    trigger: "project/wave.passed",
    run: async ({ data, step }) => {
      const { buildId, waveNumber } = data;
      await step(`move main to wave ${waveNumber} and set the restore point`, () =>
        moveMain(flow.ports, buildId, waveNumber),
      );
      await step("refresh the joined tree", () => refreshJoinedTree(flow.ports, buildId, waveNumber));
      await step("record the delivery", () => finishDelivery(flow.ports, buildId, waveNumber));
      return { buildId, wave: waveNumber, sha: data.sha };
    },
    failed: ({ data: { buildId, waveNumber }, reason, step }) =>
      step("end the build", () => failDelivery(flow.ports, buildId, waveNumber, reason)),
  });
