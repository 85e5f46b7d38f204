import { ForgeError } from "../../forge/port.ts";
import { boundedStream } from "../../webhooks/bounded-log.ts";
import type { Ports } from "../port.ts";
import { findAtForge, type PlaceAtForge } from "./at-forge.ts";
import type { ReportedCheck } from "./settle-check.ts";

/** Adds the log that the forge keeps of a failed check, cut to its failures and its end. */
export async function withForgeLog(ports: Ports, check: ReportedCheck): Promise<ReportedCheck> {
  if (check.conclusion !== "failed" || check.jobId === null) return check;
  const place = await findAtForge(ports, check.repository);
  const log = place === null ? null : await readLog(ports, place, check.jobId);
  if (log === null) return check;
  return { ...check, log: [check.log ?? "", log].filter((text) => text !== "").join("\n\n") };
}

/** A log that we may not read must not hide that the check has failed. */
async function readLog({ log }: Ports, { forge, repository }: PlaceAtForge, jobId: number): Promise<string | null> {
  try {
    const pieces = await forge.readJobLog(repository, jobId);
    return pieces === null ? null : await boundedStream(pieces);
  } catch (error) {
    if (!(error instanceof ForgeError) || error.retryAfterMs !== null) throw error;
    log.warn(`the log of job ${jobId} of ${repository.name} cannot be read: ${error.message}`);
    return `[its log cannot be read: ${error.message}]`;
  }
}
