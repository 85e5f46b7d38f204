import { admitBuild } from "../src/coordinator/build/admit-build.ts";
import { prepareRepository, prepareSandbox } from "../src/coordinator/build/prepare-build.ts";
import { readBuildRequest } from "../src/coordinator/build/request/build-request.ts";
import { storeBuild } from "../src/coordinator/build/request/store-build.ts";
import { settleRequest } from "../src/coordinator/build/request/take-events.ts";
import { failBuild } from "../src/coordinator/build/stop/fail-build.ts";
import { buildIdForEvent, requestIdOf } from "../src/domain/events/request-ids.ts";
import type { BuildRequested } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

export const buildStart = (flow: Flow) =>
  flowFunction<BuildRequested>(flow, {
    id: "build-start",
    name: "Build: check the plan and get ready",
    trigger: "project/build.requested",
    run: async ({ data, eventId, step }) => {
      const { ports } = flow;
      const buildId = await step("check the plan and store its tasks", async () => {
        const id = requestIdOf(eventId);
        const request = { id, data: await flow.vetData(id, data) };
        return storeBuild(ports, readBuildRequest(ports, request, flow.defaultDriver));
      });
      const admitted = await step("wait for the project's turn", () => admitBuild(ports, buildId));
      const facts = { buildId, project: data.project ?? null };
      if (!admitted) return { ...facts, queued: true };
      await step("ready the repository", () => prepareRepository(ports, buildId));
      await step("ready the sandbox", () => prepareSandbox(ports, buildId));
      return facts;
    },
    failed: ({ eventId, reason, step }) =>
      step("fail the build, or settle its request without one", async () => {
        await failBuild(flow.ports, buildIdForEvent(eventId), reason);
        await settleRequest(flow.ports, requestIdOf(eventId));
      }),
  });
