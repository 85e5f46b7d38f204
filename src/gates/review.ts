import { z } from "zod";
import { WavesmithError } from "../domain/errors.ts";
import type { Finding } from "../domain/gate/finding.ts";
import { severitySchema } from "../domain/status.ts";

const lineSchema = z.number().int().positive().nullish();
const reviewSchema = z.object({
  findings: z.array(
    z.object({
      title: z.string().trim().min(1),
      body: z.string().nullish(),
      severity: z.preprocess((value) => (typeof value === "string" ? value.toLowerCase() : value), severitySchema),
      confidence: z.number().min(0).max(1).nullish(),
      file: z.string().nullish(),
      startLine: lineSchema,
      line: lineSchema,
      category: z.string().nullish(),
    }),
  ),
  /** The critic's own opinion. The gate's verdict depends on the findings instead. */
  verdict: z.string().nullish(),
});
/** The strict form of the schema, which we give to the agent. */
export const reviewJsonSchema = {
  type: "object",
  properties: {
    findings: {
      type: "array",
      items: {
        type: "object",
        properties: {
          title: { type: "string", minLength: 1 },
          body: { type: "string" },
          severity: { enum: ["low", "medium", "high", "critical"] },
          confidence: { type: "number", minimum: 0, maximum: 1 },
          file: { type: "string", description: "path in the repository" },
          line: { type: "integer", minimum: 1 },
          category: { type: "string" },
        },
        required: ["title", "severity"],
      },
    },
    verdict: { type: "string" },
  },
  required: ["findings"],
} as const;

type Reviewed = z.infer<typeof reviewSchema>["findings"][number];

/** A finding with less confidence is kept but cannot block. */
export const leastConfidence = 0.5;

/**
 * Reads the findings of a critic's result file. Fails with `usage` and every problem when the file
 * does not match the schema.
 */
export function parseReview(resultFile: string): Finding[] {
  return parseGateResult(resultFile, reviewSchema, reviewRemedy).findings.map(toFinding);
}

const reviewRemedy =
  'write { "findings": [{ "title", "body", "severity": "low|medium|high|critical", "confidence", "file", "line" }] }';

/** Parses a result file. Fails with `usage`, every problem and the remedy. */
export function parseGateResult<Result>(
  text: string,
  schema: z.ZodType<Result>,
  remedy: string,
  whose = "the critic's",
): Result {
  const refuse = (problem: string, cause?: unknown) =>
    new WavesmithError("usage", `${whose} result file cannot be read: ${problem}`, { remedy, cause });
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (cause) {
    throw refuse("it is not JSON", cause);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`);
  throw refuse(problems.slice(0, 10).join("; "));
}

function toFinding(reviewed: Reviewed): Finding {
  const body = reviewed.body?.trim() ?? "";
  const confidence = reviewed.confidence ?? null;
  return {
    rule: reviewed.category ? `review-${slug(reviewed.category)}` : "review",
    severity: confidence !== null && confidence < leastConfidence ? "low" : reviewed.severity,
    message: body === "" ? reviewed.title : `${reviewed.title}: ${body}`,
    file: reviewed.file ? reviewed.file.replace(/^(?:\.\/)+/, "") : null,
    line: reviewed.startLine ?? reviewed.line ?? null,
    confidence,
  };
}

function slug(category: string): string {
  return (
    category
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 40) || "other"
  );
}
