import { z } from "zod";
import { severitySchema } from "../status.ts";
import { addedChecksSchema } from "./added-checks.ts";

/** A problem that a gate reports in a wave. */
const findingSchema = z.object({
  /** The stable name of a rule, such as `test-failure` or `undeclared-write`. */
  rule: z.string(),
  severity: severitySchema,
  message: z.string(),
  file: z.string().nullable(),
  /** Counts from 1. */
  line: z.number().int().nullable(),
  /** From 0 to 1; null means certain. */
  confidence: z.number().nullable(),
});
export type Finding = z.infer<typeof findingSchema>;

/** The evidence stored with a gate's verdict (W6). */
export const evidenceSchema = z.object({
  /** The commit that was judged. */
  sha: z.string(),
  command: z.string().nullable(),
  exitCode: z.number().int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  durationMs: z.number(),
  /** The last lines of output, secrets masked. */
  outputTail: z.string(),
  tests: z
    .object({
      total: z.number().int(),
      passed: z.number().int(),
      failed: z.number().int(),
      skipped: z.number().int(),
      /** Absent when the report does not count assertions. */
      assertions: z.number().int().optional(),
      /**
       * `tap` and `junit` are exact counts; `runner` is read from a summary line and shown as
       * "estimated".
       */
      source: z.enum(["tap", "junit", "runner"]),
    })
    .nullable(),
  /** Additional lines for people, such as "18 of 20 checks passed". */
  notes: z.array(z.string()),
  /** During a critic run: the findings of the first review, which a second look must confirm. */
  firstLook: z
    .object({
      /** Findings that would block the wave. */
      candidates: z.array(findingSchema),
      aside: z.array(findingSchema),
    })
    .optional(),
  /** For testing and integration: the checks that the gate's agent added, if the plan names one. */
  added: addedChecksSchema.optional(),
});
export type Evidence = z.infer<typeof evidenceSchema>;
