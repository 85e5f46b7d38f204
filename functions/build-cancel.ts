import { takeCancelRequest } from "../src/coordinator/build/stop/cancel-build.ts";
import { stopBuildJobs } from "../src/coordinator/build/stop/stop-build.ts";
import { closeTreeOfWave } from "../src/coordinator/wave/shared-tree.ts";
import type { CancelRequested } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const buildCancel = (flow: Flow) =>
  flowFunction<CancelRequested>(flow, {
    id: "build-cancel",
    name: "Build: cancel",
    trigger: "project/build.cancel-requested",
    decides: true,
    run: async ({ data, eventId, step }) => {
      await step("mark the build as being cancelled", () => takeCancelRequest(flow.ports, eventId, data));
      await step("end its jobs", () => stopBuildJobs(flow.ports, data.buildId));
      await step("close the tree its tasks shared", () => closeTreeOfWave(flow.ports, data.buildId, "last"));
      return { buildId: data.buildId };
    },
  });
