import { boundedStream } from "../../webhooks/bounded-log.ts";
import type { Ports } from "../port.ts";
import { findAtForge } from "./at-forge.ts";
import type { ReportedCheck } from "./settle-check.ts";

/** Adds the log that the forge keeps of a failed check, cut to its failures and its end. */
export async function withForgeLog(ports: Ports, check: ReportedCheck): Promise<ReportedCheck> {
  if (check.conclusion !== "failed" || check.jobId === null) return check;
  const place = await findAtForge(ports, check.repository);
  const pieces = place === null ? null : await place.forge.readJobLog(place.repository, check.jobId);
  if (pieces === null) return check;
  const log = await boundedStream(pieces);
  return { ...check, log: [check.log ?? "", log].filter((text) => text !== "").join("\n\n") };
}
