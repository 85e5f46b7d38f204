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
