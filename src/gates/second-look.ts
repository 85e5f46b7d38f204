import { z } from "zod";
import type { Finding } from "../domain/gate/finding.ts";
import { parseGateResult, parseReview } from "./review.ts";

const secondLookSchema = z.object({
  verdicts: z.array(
    z.object({ finding: z.number().int().positive(), confirmed: z.boolean(), reason: z.string().nullish() }),
  ),
});

/** The JSON schema of a second look's result. */
export const secondLookJsonSchema = {
  type: "object",
  properties: {
    verdicts: {
      type: "array",
      items: {
        type: "object",
        properties: {
          finding: { type: "integer", minimum: 1, description: "the finding's number" },
          confirmed: { type: "boolean" },
          reason: { type: "string" },
        },
        required: ["finding", "confirmed"],
      },
    },
  },
  required: ["verdicts"],
} as const;

export interface SecondVerdict {
  readonly confirmed: boolean;
  readonly reason: string | null;
}

/**
 * Returns a second look's verdict on each finding; a finding it does not mention is not confirmed.
 * A scripted critic may report its findings again instead, which confirms the repeated ones. Fails
 * with `usage` when the file cannot be read.
 */
export function parseSecondLook(resultFile: string, findings: readonly Finding[]): SecondVerdict[] {
  if (reportsFindings(resultFile)) {
    const repeatedFindings = parseReview(resultFile);
    return findings.map((finding) => ({
      confirmed: repeatedFindings.some((one) => isSame(one, finding)),
      reason: null,
    }));
  }
  const { verdicts } = parseGateResult(resultFile, secondLookSchema, secondLookRemedy);
  return findings.map((_, index) => {
    const verdict = verdicts.findLast(({ finding }) => finding === index + 1);
    const reason = verdict?.reason?.trim() ?? "";
    return { confirmed: verdict?.confirmed ?? false, reason: reason === "" ? null : reason };
  });
}

const secondLookRemedy = 'write { "verdicts": [{ "finding": 1, "confirmed": true, "reason" }] }, one for each finding';

const reportSchema = z.looseObject({ findings: z.array(z.unknown()), verdicts: z.undefined().optional() });

function reportsFindings(text: string): boolean {
  try {
    return reportSchema.safeParse(JSON.parse(text.replace(/^\uFEFF/, ""))).success;
  } catch {
    return false; // parsing it as verdicts will report the problem
  }
}

const isSame = (one: Finding, other: Finding): boolean =>
  one.rule === other.rule && one.file === other.file && one.message === other.message;
