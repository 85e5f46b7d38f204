import { deliverPullRequest } from "../src/coordinator/forge/deliver-pull-request.ts";
import { forgeSteps } from "../src/domain/forge.ts";
import type { PullRequestOpen } from "./events.ts";
import { type Flow, flowFunction } from "./flow.ts";

const stepNames = {
  repository: "find or make the repository",
  push: "push the branch",
  request: "open or update the pull request",
  checks: "report the gates",
  merge: "merge it if the plan says so",
} as const;

export const pullRequestOpen = (flow: Flow) =>
  flowFunction<PullRequestOpen>(flow, {
    id: "pull-request-open",
    name: "Pull request: bring it up to date",
    trigger: "agent/pull-request.open",
    run: async ({ data: { buildId, key, epoch }, step }) => {
      for (const name of forgeSteps) {
        const goesOn = await step(stepNames[name], () => deliverPullRequest(flow.ports, { buildId, key, epoch }, name));
        if (!goesOn) return { buildId, key, stoppedAt: name };
      }
      return { buildId, key };
    },
  });
