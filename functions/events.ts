import type { z } from "zod";
import type { eventSchemas } from "../src/domain/events/events.ts";

// The types of the data that functions get, from the events' schemas.

export type BuildRequested = z.infer<(typeof eventSchemas)["project/build.requested"]>;
export type WaveEvent = z.infer<(typeof eventSchemas)["agent/wave.start"]>;
export type ExecutionEvent = z.infer<(typeof eventSchemas)["agent/execution.*"]>;
export type AttemptFinished = z.infer<(typeof eventSchemas)["agent/attempt.finished"]>;
export type FixEvent = z.infer<(typeof eventSchemas)["agent/quality.fix"]>;
export type GateEvent = z.infer<(typeof eventSchemas)["agent/quality.testing"]>;
export type GateFinished = z.infer<(typeof eventSchemas)["agent/gate.finished"]>;
export type WavePassed = z.infer<(typeof eventSchemas)["project/wave.passed"]>;
export type WaveApproved = z.infer<(typeof eventSchemas)["project/wave.approved"]>;
export type WaveRejected = z.infer<(typeof eventSchemas)["project/wave.rejected"]>;
export type PullRequestOpen = z.infer<(typeof eventSchemas)["agent/pull-request.open"]>;
export type CancelRequested = z.infer<(typeof eventSchemas)["project/build.cancel-requested"]>;
export type CheckCompleted = z.infer<(typeof eventSchemas)["ci/check.completed"]>;
export type SuiteCompleted = z.infer<(typeof eventSchemas)["ci/suite.completed"]>;
export type ForgeCommentMade = z.infer<(typeof eventSchemas)["forge/comment.made"]>;
export type ThreadSettled = z.infer<(typeof eventSchemas)["forge/thread.settled"]>;
export type ReviewSubmitted = z.infer<(typeof eventSchemas)["forge/review.submitted"]>;
export type RequestClosed = z.infer<(typeof eventSchemas)["forge/request.closed"]>;
export type CommandGiven = z.infer<(typeof eventSchemas)["forge/command.given"]>;
export type IssueReady = z.infer<(typeof eventSchemas)["forge/issue.ready"]>;
export type LabelAdded = z.infer<(typeof eventSchemas)["forge/label.added"]>;
export type BranchPushed = z.infer<(typeof eventSchemas)["forge/branch.pushed"]>;
