import { z } from "zod";

// The part of the executor's side of Inngest's SDK protocol (SDK_SPEC.md of inngest/inngest) that
// the engine speaks.

/** One report of a function: a step that ran, failed, is planned or sleeps, or the run's end. */
export const opSchema = z.object({
  id: z.string(),
  op: z.string(),
  name: z.string().nullish(),
  displayName: z.string().nullish(),
  data: z.unknown().optional(),
  error: z.unknown().optional(),
  opts: z.record(z.string(), z.unknown()).nullish(),
});
export type Op = z.infer<typeof opSchema>;

/** The body of `POST /v1/checkpoint/:run/async`. */
export const checkpointSchema = z.object({
  run_id: z.string(),
  qi_id: z.string().regex(/^\d{1,18}$/),
  generation_id: z.number().int(),
  steps: z.array(opSchema),
});
export type Checkpoint = z.infer<typeof checkpointSchema>;

const triggerSchema = z.record(z.string(), z.unknown());
const functionSchema = z.looseObject({
  id: z.string(),
  name: z.string().optional(),
  triggers: z.array(triggerSchema),
  steps: z.object({ step: z.looseObject({ retries: z.object({ attempts: z.number().int().min(0) }).optional() }) }),
  concurrency: z.unknown().optional(),
});
/** A function as the SDK registers it. */
export type FunctionConfig = z.infer<typeof functionSchema>;

/** The response to an in-band sync, a `PUT` with `x-inngest-sync-kind: in_band`. */
export const syncSchema = z.looseObject({ functions: z.array(functionSchema) });

/** An event in the body of `POST /e/:key`, which holds one or several. */
const sentEventSchema = z.object({
  name: z.string().min(1),
  id: z.string().min(1).nullish(),
  data: z.record(z.string(), z.unknown()).nullish(),
  ts: z.number().nullish(),
  v: z.string().nullish(),
});
export const sentEventsSchema = z.union([z.array(sentEventSchema), sentEventSchema.transform((event) => [event])]);
export type SentEvent = z.infer<typeof sentEventSchema>;

/** The SDK's response to a call. */
export interface CallResponse {
  readonly status: number;
  /** `x-inngest-no-retry`: the error is final. */
  readonly noRetry: boolean;
  /** `retry-after`, as the SDK sent it: seconds or a date. */
  readonly retryAfter: string | null;
  readonly body: unknown;
}

/** An error as the SDK serialises it to JSON. */
export interface SerializedError {
  readonly __serialized: true;
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

export const serializedError = (name: string, message: string): SerializedError => ({
  __serialized: true,
  name,
  message,
  stack: "",
});
