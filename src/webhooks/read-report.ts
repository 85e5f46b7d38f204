import { createHash } from "node:crypto";
import { z } from "zod";
import { matchSchema } from "../domain/check-input.ts";
import { WavesmithError } from "../domain/errors.ts";
import { boundedLog } from "./bounded-log.ts";
import { conclusionOf } from "./conclusions.ts";
import type { CheckFact } from "./port.ts";

const reportSchema = z
  .strictObject({
    repository: z.string().min(1).max(300),
    branch: z.string().min(1).max(500).optional(),
    sha: z
      .string()
      .regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, "must be a full commit id")
      .optional(),
    name: z.string().min(1).max(200),
    conclusion: z.string().min(1).max(50),
    url: z
      .string()
      .max(2_000)
      .regex(/^https?:\/\/\S+$/, "must be a URL")
      .optional(),
    log: z.string().optional(),
    /** Identifies the run; a second report with it changes nothing. */
    id: z.string().min(1).max(200).optional(),
    completedAt: z.iso.datetime({ offset: true }).optional(),
  })
  .refine(({ branch, sha }) => branch !== undefined || sha !== undefined, "the report needs a branch or a sha");

/**
 * Reads a report from a CI system. Without an `id` its content identifies it, so that sending it
 * again changes nothing. Fails with `usage`.
 */
export function readReport(body: unknown, now: Date): CheckFact {
  const report = matchSchema(reportSchema, body, {
    where: "the report",
    remedy: "send {repository, branch or sha, name, conclusion, url, log}; docs/webhooks.md has an example",
  });
  const { repository, branch = null, sha = null, name, url = null, log } = report;
  const conclusion = conclusionOf(report.conclusion);
  if (conclusion === null)
    throw new WavesmithError("usage", `conclusion ${report.conclusion} is unknown`, {
      remedy: "send passed, failed or cancelled",
    });
  const completedAt = report.completedAt === undefined ? now : new Date(report.completedAt);
  const id = report.id ?? createHash("sha256").update(JSON.stringify(report)).digest("hex").slice(0, 32);
  return {
    ...{ kind: "check", repository, branch, sha, name, conclusion, url, jobId: null },
    origin: `ci:${repository}:${name}:${id}`,
    log: log === undefined || log === "" ? null : boundedLog(log),
    // A clock that is ahead must not make every later report look old.
    completedAt: completedAt > now ? now : completedAt,
  };
}
