import { deployPreview } from "../src/coordinator/preview.ts";
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
  });
