import type { AttemptOutcome } from "../../domain/status.ts";
import type { JobState } from "../../sandbox/port.ts";
import { withDenials } from "../job/denials.ts";
import type { Ports } from "../port.ts";
import type { LoadedAttempt } from "./attempt.ts";

export interface Judgement {
  readonly outcome: AttemptOutcome;
  readonly reason: string | null;
}

/** Adds denied hosts to a failure, because a program that cannot reach a host seldom names it. */
export async function explainFailure(
  ports: Ports,
  { build }: LoadedAttempt,
  state: JobState | null,
  judged: Judgement,
): Promise<Judgement> {
  const { outcome, reason } = judged;
  if (state === null || reason === null || (outcome !== "failed" && outcome !== "timed-out")) return judged;
  return { outcome, reason: await withDenials(ports, build, { reason, since: new Date(state.createdAt) }) };
}
