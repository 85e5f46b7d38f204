import { clearPreviewOf, deployPreview, failPreview } from "../src/coordinator/preview/preview.ts";
import type { WavePassed } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const previewDeploy = (flow: Flow) =>
  flowFunction<WavePassed>(flow, {
    id: "preview-deploy",
    name: "Preview: start it",
    trigger: "agent/preview.deploy",
    run: ({ data, step }) =>
      step(`start the preview of wave ${data.waveNumber}`, () =>
        deployPreview(flow.ports, data.buildId, data.waveNumber),
      ),
    failed: async ({ data, reason, step }) => {
      const { buildId, waveNumber } = data;
      await step("say that it is dead", () => failPreview(flow.ports, buildId, waveNumber, reason));
      await step("end what runs of it", () => clearPreviewOf(flow.ports, buildId, "it could not be started"));
    },
  });
