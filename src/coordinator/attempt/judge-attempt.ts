import type { AgentEnd } from "../../agents/port.ts";
import { saysDiskFull } from "../../domain/disk-full.ts";
import type { AttemptOutcome, BuildStatus } from "../../domain/status.ts";
import type { JobState } from "../../sandbox/port.ts";
import type { TaskRow } from "../../store/port.ts";
import { withDenials } from "../job/denials.ts";
import { describeFailure, endText, failedStage, overBudget } from "../job/job-results.ts";
import type { Ports } from "../port.ts";
import type { LoadedAttempt } from "./attempt.ts";
import type { Keeping } from "./keep-work.ts";

// W5. An agent's claim to be finished proves nothing: exit status, acceptance checks and the diff
// in git decide.

export interface Judgement {
  readonly outcome: AttemptOutcome;
  readonly reason: string | null;
}

interface AttemptEvidence {
  readonly state: JobState | null;
  /** What it wrote may not be whole. */
  readonly isDoubtful: boolean;
  readonly keeping: Keeping;
  /** The last lines of the output of the stage that failed. */
  readonly tail: string;
  /** How an agent that speaks the Agent Client Protocol says it ended. */
  readonly ended: ReturnType<Ports["agents"]["endOf"]>;
}

const restarted = "the machine was started anew before its work was kept, which may not be whole";

export function judgeAttempt(
  { attempt, build, task }: LoadedAttempt,
  { state, isDoubtful, keeping, tail, ended }: AttemptEvidence,
): Judgement {
  const { kept, noRoom } = keeping;
  if (state === null || state.status === "lost")
    return { outcome: "lost", reason: state?.cancelReason ?? "its sandbox died while it ran" };
  if (state.status === "cancelled") return cancelledAs(state.cancelReason, build.status);
  const failed = failedStage(state);
  if (failed !== null) {
    const said = failed.name === "agent" && !failed.timedOut ? ended : null;
    const outcome = failed.timedOut ? "timed-out" : said === null ? "failed" : outcomeOfEnd(said.end);
    const reason = said === null ? `${describeFailure(failed)}${checkText(failed.name, task)}` : endText(said);
    const full = noRoom !== null || saysDiskFull(`${failed.error ?? ""}\n${tail}`);
    return { outcome, reason: full ? `the disk is full: ${[reason, noRoom ?? []].flat().join("; ")}` : reason };
  }
  if (isDoubtful) return { outcome: "lost", reason: restarted };
  if (noRoom !== null) return { outcome: "failed", reason: `no room on the disk to keep its work: ${noRoom}` };
  if (kept === null) return { outcome: "lost", reason: "its tree is gone" };
  if (kept.refused.length > 0) return { outcome: "refused", reason: `cannot be kept: ${kept.refused.join("; ")}` };
  const mustChange = attempt.kind === "fix" || task?.definition.changes === "required";
  if (kept.commit === null && mustChange) return { outcome: "failed", reason: "it finished without changing a file" };
  return { outcome: "succeeded", reason: null };
}

/** A program that could not reach a host seldom says which. */
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

/**
 * A job that was ended though nobody cancelled its build went with its sandbox, which somebody
 * stopped.
 */
function cancelledAs(reason: string | null, status: BuildStatus): Judgement {
  if (reason === overBudget) return { outcome: "over-budget", reason: "the time limit of the plan is used up" };
  if (status !== "cancelling") return { outcome: "lost", reason: `its sandbox was stopped: ${reason}` };
  return { outcome: "cancelled", reason: reason ?? "cancelled" };
}

function checkText(stageName: string, task: TaskRow | null): string {
  const index = /^check (\d+)$/.exec(stageName)?.[1];
  if (index === undefined || task === null) return "";
  return ` (${task.definition.acceptance[Number(index) - 1]?.check ?? ""})`;
}

/**
 * What an agent's own end counts as. That it finished is never one: its checks and its diff decide
 * (W5).
 */
function outcomeOfEnd(end: AgentEnd): AttemptOutcome {
  if (end === "refused" || end === "over-budget") return end;
  return end === "stalled" ? "timed-out" : "failed";
}
