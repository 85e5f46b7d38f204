import { z } from "zod";
import { addedChecksSchema } from "./added-checks.ts";
import { severitySchema } from "./status.ts";

/** Something a gate holds against a wave. */
const findingSchema = z.object({
  /**
   * A stable word for the rule, such as `test-failure`, `conflict-marker`, `secret`,
   * `undeclared-write`.
   */
  rule: z.string(),
  severity: severitySchema,
  message: z.string(),
  file: z.string().nullable(),
  /** 1-based. */
  line: z.number().int().nullable(),
  /** 0..1; null: certain. */
  confidence: z.number().nullable(),
});
export type Finding = z.infer<typeof findingSchema>;

/** What a gate saw, kept with its verdict (W6). */
const evidenceSchema = z.object({
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
      /** Absent where the report has no such number. */
      assertions: z.number().int().optional(),
      /**
       * `tap` and `junit` are counts; `runner` was scraped from a summary line, shown as
       * "estimated".
       */
      source: z.enum(["tap", "junit", "runner"]),
    })
    .nullable(),
  /** Further lines for people, such as "18 of 20 checks passed". */
  notes: z.array(z.string()),
  /**
   * Of a critic's run that is not over: what its first look found and a second one is asked about.
   */
  firstLook: z
    .object({
      /** These would block. */
      candidates: z.array(findingSchema),
      aside: z.array(findingSchema),
    })
    .optional(),
  /** Of testing and integration, when the plan gives the gate an agent: what it added. */
  added: addedChecksSchema.optional(),
});
export type Evidence = z.infer<typeof evidenceSchema>;
