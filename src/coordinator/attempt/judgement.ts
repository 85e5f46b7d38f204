import type { AgentEnd } from "../../agents/port.ts";
import type { AttemptOutcome } from "../../domain/status.ts";
import type { JobState } from "../../sandbox/port.ts";
import { withDenials } from "../job/denials.ts";
import type { Ports } from "../port.ts";
import type { LoadedAttempt } from "./attempt.ts";

export interface Judgement {
  readonly outcome: AttemptOutcome;
  readonly reason: string | null;
}

interface FailureEvidence {
  readonly state: JobState | null;
  readonly ended: ReturnType<Ports["agents"]["endOf"]>;
  readonly unfinished: string | null;
}

/** Ends that a host outside the sandbox may have caused; models are reached by our proxy. */
const endsByNetwork: ReadonlySet<AgentEnd> = new Set(["finished", "crashed", "not-installed"]);

/** Adds denied hosts to a failure, because a program that cannot reach a host seldom names it. */
export async function explainFailure(
  ports: Ports,
  { build }: LoadedAttempt,
  { state, ended, unfinished }: FailureEvidence,
  judged: Judgement,
): Promise<Judgement> {
  const { outcome, reason } = judged;
  if (state === null || reason === null || (outcome !== "failed" && outcome !== "timed-out")) return judged;
  if (unfinished !== null || (ended !== null && !endsByNetwork.has(ended.end))) return judged;
  return { outcome, reason: await withDenials(ports, build, { reason, since: new Date(state.createdAt) }) };
}
