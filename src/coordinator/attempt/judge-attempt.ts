import type { AgentEnd } from "../../agents/port.ts";
import { saysDiskFull } from "../../domain/disk-full.ts";
import type { AttemptOutcome, BuildStatus } from "../../domain/status.ts";
import type { JobState } from "../../sandbox/port.ts";
import type { TaskRow } from "../../store/port.ts";
import { describeFailure, endText, failedStage, overBudget } from "../job/job-results.ts";
import type { Ports } from "../port.ts";
import type { LoadedAttempt } from "./attempt.ts";
import type { Judgement } from "./judgement.ts";
import type { KeptWork } from "./kept-work.ts";

// W5. An agent's claim to be finished proves nothing: exit status, acceptance checks and the diff
// in git decide.

interface AttemptEvidence {
  readonly state: JobState | null;
  /** Whether files it wrote may be incomplete. */
  readonly isDoubtful: boolean;
  readonly keeping: KeptWork;
  /** The last lines of output of the failed stage. */
  readonly tail: string;
  /** How an ACP agent reports that it ended. */
  readonly ended: ReturnType<Ports["agents"]["endOf"]>;
  /** Why its last model call did not finish, by the ledger. */
  readonly unfinished: string | null;
}

const restarted = "the machine restarted before its work was saved, so it may be incomplete";

export function judgeAttempt(
  { attempt, build, task }: LoadedAttempt,
  { state, isDoubtful, keeping, tail, ended, unfinished }: AttemptEvidence,
): Judgement {
  const { kept, noRoom } = keeping;
  if (state === null || state.status === "lost")
    return { outcome: "lost", reason: state?.cancelReason ?? "its sandbox died while it ran" };
  if (state.status === "cancelled") return cancelledAs(state.cancelReason, build.status);
  const failed = failedStage(state);
  if (failed !== null) {
    const agentEnd = failed.name === "agent" && !failed.timedOut ? ended : null;
    const outcome = failed.timedOut ? "timed-out" : agentEnd === null ? "failed" : outcomeOfEnd(agentEnd.end);
    const reason = agentEnd === null ? `${describeFailure(failed)}${checkText(failed.name, task)}` : endText(agentEnd);
    const full = noRoom !== null || saysDiskFull(`${failed.error ?? ""}\n${tail}`);
    return { outcome, reason: full ? `the disk is full: ${[reason, noRoom ?? []].flat().join("; ")}` : reason };
  }
  if (isDoubtful) return { outcome: "lost", reason: restarted };
  if (noRoom !== null) return { outcome: "failed", reason: `the disk is too full to save its work: ${noRoom}` };
  if (kept === null) return { outcome: "lost", reason: "its tree is gone" };
  if (kept.refused.length > 0) return { outcome: "refused", reason: `cannot be kept: ${kept.refused.join("; ")}` };
  if (unfinished !== null) return { outcome: "failed", reason: `the agent did not finish: ${unfinished}` };
  const mustChange = attempt.kind === "fix" || task?.definition.changes === "required";
  if (kept.commit === null && mustChange) return { outcome: "failed", reason: "it finished without changing a file" };
  return { outcome: "succeeded", reason: null };
}

/** Judges a cancelled job. If its build was not cancelled, someone stopped its sandbox. */
function cancelledAs(reason: string | null, status: BuildStatus): Judgement {
  if (reason === overBudget) return { outcome: "over-budget", reason: "the plan's time limit is used up" };
  if (status !== "cancelling") return { outcome: "lost", reason: `its sandbox was stopped: ${reason}` };
  return { outcome: "cancelled", reason: reason ?? "cancelled" };
}

function checkText(stageName: string, task: TaskRow | null): string {
  const index = /^check (\d+)$/.exec(stageName)?.[1];
  if (index === undefined || task === null) return "";
  return ` (${task.definition.acceptance[Number(index) - 1]?.check ?? ""})`;
}

/**
 * Maps an agent's reported end to an outcome. "Finished" is not one: checks and diff decide (W5).
 */
function outcomeOfEnd(end: AgentEnd): AttemptOutcome {
  if (end === "refused" || end === "over-budget") return end;
  return end === "stalled" ? "timed-out" : "failed";
}
