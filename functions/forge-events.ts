import { maySteer, refuseOutsider, replyAtForge } from "../src/coordinator/outside/at-forge.ts";
import { startFromText, takeCommand } from "../src/coordinator/outside/forge-commands.ts";
import { startFromLabel } from "../src/coordinator/outside/start-from-label.ts";
import { startFromPush } from "../src/coordinator/outside/start-from-push.ts";
import {
  takeClosedRequest,
  takeForgeComment,
  takeReview,
  takeThread,
} from "../src/coordinator/outside/take-finding.ts";
import type {
  BranchPushed,
  CommandGiven,
  ForgeCommentMade,
  IssueReady,
  LabelAdded,
  RequestClosed,
  ReviewSubmitted,
  ThreadSettled,
} from "./events.ts";
import { type Flow, type FlowFunction, flowFunction } from "./flow.ts";

type Deed<Data> = (data: Data, flow: Flow) => Promise<string>;
interface Said {
  readonly tenantId: string;
  readonly repository: string;
  readonly number: number;
  readonly by: string;
}

/** A function that acts only for people who may push to the repository. */
const forInsiders = <Data extends Said>(
  flow: Flow,
  options: Pick<FlowFunction<Data>, "id" | "name" | "trigger">,
  { doing, deed, isAnswered }: { doing: string; deed: Deed<Data>; isAnswered: (data: Data) => boolean },
) =>
  flowFunction<Data>(flow, {
    ...options,
    ...{ decides: true, outlastsForge: true },
    run: async ({ data, eventId, step }) => {
      const { repository, number, by } = data;
      const isAllowed = await step("see whether they may push", () => maySteer(flow.ports, repository, by));
      if (!isAllowed) {
        await step("say that nothing follows", () => refuseOutsider(flow.ports, data, eventId));
        return { answer: `${by} may not push to ${repository}` };
      }
      const answer = await step(doing, () => deed(data, flow));
      if (isAnswered(data))
        await step("answer", () => replyAtForge(flow.ports, { repository, number, key: eventId, text: answer }));
      return { answer };
    },
  });

/** A function that acts whoever caused the event; some deeds check the rights themselves. */
const forAnybody = <Data>(
  flow: Flow,
  options: Pick<FlowFunction<Data>, "id" | "name" | "trigger">,
  { doing, deed }: { doing: string; deed: (data: Data, eventId: string) => Promise<string> },
) =>
  flowFunction<Data>(flow, {
    ...options,
    ...{ decides: true, outlastsForge: true },
    run: async ({ data, eventId, step }) => ({ answer: await step(doing, () => deed(data, eventId)) }),
  });

export const forgeEvents = (flow: Flow) => [
  forAnybody<BranchPushed>(
    flow,
    { id: "forge-push", name: "Forge: a branch moved", trigger: "forge/branch.pushed" },
    { doing: "start what on.push asks for", deed: (data) => startFromPush(flow.ports, data, flow.defaultDriver) },
  ),
  forAnybody<LabelAdded>(
    flow,
    { id: "forge-label", name: "Forge: a label was added", trigger: "forge/label.added" },
    {
      doing: "start what on.label asks for",
      deed: (data, eventId) => startFromLabel(flow.ports, data, { eventId, defaultDriver: flow.defaultDriver }),
    },
  ),
  forInsiders<ForgeCommentMade>(
    flow,
    { id: "forge-comment", name: "Forge: a comment on a line", trigger: "forge/comment.made" },
    {
      doing: "give it to the fixer",
      deed: (data, { ports }) => takeForgeComment(ports, data),
      isAnswered: () => false,
    },
  ),
  forInsiders<ReviewSubmitted>(
    flow,
    { id: "forge-review", name: "Forge: a review", trigger: "forge/review.submitted" },
    { doing: "follow the review", deed: (data, { ports }) => takeReview(ports, data), isAnswered: () => false },
  ),
  forInsiders<CommandGiven>(
    flow,
    { id: "forge-command", name: "Forge: a command in a comment", trigger: "forge/command.given" },
    {
      doing: "carry it out",
      deed: (data, { ports, defaultDriver }) => takeCommand(ports, data, defaultDriver),
      isAnswered: () => true,
    },
  ),
  forInsiders<IssueReady>(
    flow,
    { id: "forge-issue", name: "Forge: an issue asks for a build", trigger: "forge/issue.ready" },
    {
      doing: "start a build of its text",
      deed: ({ title, text, ...data }, { ports, defaultDriver }) =>
        startFromText(ports, { ...data, text: `${title}\n\n${text}` }, defaultDriver),
      isAnswered: () => true,
    },
  ),
  forAnybody<ThreadSettled>(
    flow,
    { id: "forge-thread", name: "Forge: a thread was resolved", trigger: "forge/thread.settled" },
    { doing: "follow the thread", deed: (data) => takeThread(flow.ports, data) },
  ),
  forAnybody<RequestClosed>(
    flow,
    { id: "forge-closed", name: "Forge: a request was closed", trigger: "forge/request.closed" },
    {
      doing: "let the delivery look",
      deed: async ({ buildId, by }) => {
        await takeClosedRequest(flow.ports, buildId);
        return `the delivery looks at what ${by} did`;
      },
    },
  ),
];
