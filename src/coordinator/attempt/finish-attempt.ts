import type { AgentEnd } from "../../agents/port.ts";
import { isDiskFull, saysDiskFull } from "../../domain/disk-full.ts";
import type { Finding } from "../../domain/finding.ts";
import type { ProjectId } from "../../domain/ids.ts";
import {
  type AttemptOutcome,
  type BuildStatus,
  liveAttemptStatuses,
  startedAttemptStatuses,
} from "../../domain/status.ts";
import type { JobState, SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptRow, StoreTransaction, TaskRow } from "../../store/port.ts";
import type { KeepResult } from "../../workspace/port.ts";
import { emitFor } from "../build-events.ts";
import { commitReader } from "../commit-reader.ts";
import { changedGatesReason } from "../gate/gate-files.ts";
import { withDenials } from "../job/denials.ts";
import {
  attemptMask,
  describeFailure,
  endText,
  failedStage,
  jobStateOf,
  outputTail,
  overBudget,
  stageOutput,
} from "../job/job-results.ts";
import { dropJob, isOfEarlierBoot } from "../job/job-stages.ts";
import type { Mask } from "../masking/masking.ts";
import { handoverPath, waveRef } from "../names.ts";
import { addHeadAttempt, advance } from "../next/advance.ts";
import { applyPlan, isPlanner, judgePlan, writePlanOut } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { clearPaths, closeSharedTree, sharesTree } from "../wave/shared-tree.ts";
import { plantedReason } from "./agent-files.ts";
import { type Keeping, keepTree, keepWork } from "./keep-work.ts";
import {
  type AttemptRefer,
  homesOf,
  type LoadedAttempt,
  loadAttempt,
  mayChangeTests,
  waveMembers,
} from "./start-attempt.ts";

// W5. An agent's claim to be finished proves nothing: exit status, acceptance checks and the diff
// in git decide.
// W8. Work is kept on a ref of the authority before the tree that holds it is removed.

const maxLosses = 3;

/** Keeps the attempt's work, then settles it: two commits, each of which may be done again. */
export async function finishAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  await keepAttempt(ports, refer);
  await settleAttempt(ports, refer);
}

/**
 * Commits what the attempt's tree holds and puts it on the attempt's ref; whatever the outcome,
 * nothing is thrown away.
 */
export async function keepAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, build } = loaded;
  // Once it is kept it is not looked at again: settling it may already have given back its paths of
  // a shared tree.
  if (attempt.fence !== refer.fence || !startedAttemptStatuses.includes(attempt.status)) return;
  const endpoint = await ensureSandbox(ports, build);
  const mask = await attemptMask(ports, build, attempt);
  const state = await jobStateOf(ports, attempt.jobKey);
  const [handedIn, keeping] = await Promise.all([
    handedInSummary(ports, endpoint, attempt, mask),
    keepWork(ports, endpoint, loaded, state !== null && failedStage(state) !== null),
  ]);
  const { kept, noRoom } = keeping;
  if (noRoom !== null) ports.log.warn(`the disk had no room for all of the work of ${attempt.treePath}: ${noRoom}`);
  const output = state === null ? "" : await lastOutput(endpoint, attempt, state, mask);
  const tail = outputTail(ports.agents.readable(output));
  const isDoubtful = state !== null && isOfEarlierBoot(ports, state);
  const judged = judge(loaded, { state, isDoubtful, keeping, tail, ended: ports.agents.endOf(output) });
  if (isPlanner(loaded)) {
    const explain = await explained(ports, loaded, state, judged);
    await keepPlan(ports, endpoint, loaded, { judged: explain, mask, tail, commitSha: kept?.commit ?? null });
    return;
  }
  const guarded = await guardDecidingFiles(ports, endpoint, loaded, {
    kept,
    judged: guardNames(kept, mask, await guardFix(ports, loaded, kept, await explained(ports, loaded, state, judged))),
  });
  const summary =
    handedIn ?? (guarded.outcome === "succeeded" ? await lastWords(ports, endpoint, attempt, state, mask) : null);
  const changed = kept === null ? [] : kept.changed.map((file) => mask(file.path));
  await ports.store.attempts.update(
    { id: attempt.id, fence: refer.fence, status: startedAttemptStatuses },
    {
      status: "finishing",
      commitSha: kept?.commit ?? null,
      verdict: { ...guarded, reason: guarded.reason === null ? null : mask(guarded.reason), summary, changed },
      outputTail: tail,
    },
  );
}

/**
 * The verdict on a planner's attempt rests on the plan it handed in; what else it changed is kept
 * and never joined.
 */
async function keepPlan(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
  { judged, mask, tail, commitSha }: { judged: Judgement; mask: Mask; tail: string; commitSha: string | null },
): Promise<void> {
  const { attempt } = loaded;
  const handed = judged.outcome === "succeeded" ? await judgePlan(endpoint, loaded, mask) : {};
  const { outcome, reason } =
    handed.reason === undefined ? judged : { outcome: "failed" as const, reason: handed.reason };
  const { plan, handedIn } = handed;
  await ports.store.attempts.update(
    { id: attempt.id, fence: attempt.fence, status: startedAttemptStatuses },
    {
      status: "finishing",
      commitSha,
      verdict: {
        outcome,
        reason: reason === null ? null : mask(reason),
        summary: plan?.description ?? null,
        changed: [],
        ...(plan === undefined ? {} : { plan }),
        ...(handedIn === undefined ? {} : { handedIn }),
      },
      outputTail: tail,
    },
  );
}

async function handedInSummary(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { jobKey }: AttemptRow,
  mask: Mask,
): Promise<string | null> {
  const file = await guest.readFile(`${handoverPath(jobKey)}/result.json`, { maxBytes: 256 * 1024 }).catch(
    () => null, // a result file too large to read is as good as none: it proves nothing anyway (W5)
  );
  return ports.agents.parseResult(file === null ? null : mask(file.toString("utf8"))).summary;
}

/**
 * What an agent of the Agent Client Protocol said at its end, for those whose tasks depend on it.
 */
async function lastWords(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { jobKey }: AttemptRow,
  state: JobState | null,
  mask: Mask,
): Promise<string | null> {
  const stage = state?.stages.find(({ name }) => name === "agent");
  if (stage === undefined) return null;
  const said = ports.agents.lastMessage(await stageOutput(endpoint, jobKey, stage, mask));
  // It was told in pieces: what is a secret may be whole only now.
  return said === null ? null : mask(said);
}

interface Judgement {
  readonly outcome: AttemptOutcome;
  readonly reason: string | null;
}

interface Evidence {
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

function judge(
  { attempt, build, task }: LoadedAttempt,
  { state, isDoubtful, keeping, tail, ended }: Evidence,
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
async function explained(
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

/** W7: a fix may not weaken tests unless every task of the wave may. */
async function guardFix(
  ports: Ports,
  { attempt, build, wave }: LoadedAttempt,
  kept: KeepResult | null,
  judged: Judgement,
): Promise<Judgement> {
  if (attempt.kind !== "fix" || judged.outcome !== "succeeded" || kept?.commit == null) return judged;
  if (mayChangeTests(await waveMembers(ports, wave.id))) return judged;
  const weakened = (await checkFix(ports, build.projectId, attempt, kept)).filter((finding) =>
    ports.gates.isWeakenedTest(finding),
  );
  if (weakened.length === 0) return judged;
  return {
    outcome: "refused",
    reason: `the fix weakens tests: ${weakened.map((finding) => finding.message).join("; ")}`,
  };
}

/**
 * Names of files are in findings, prompts and views without end: a secret is in none of them (W12).
 */
function guardNames(kept: KeepResult | null, mask: Mask, judged: Judgement): Judgement {
  const telling = kept?.changed.find(({ path }) => mask(path) !== path);
  if (judged.outcome !== "succeeded" || telling === undefined) return judged;
  return { outcome: "refused", reason: `the name of a file that it changed holds a secret: ${mask(telling.path)}` };
}

/**
 * One agent neither steers the next unseen (A1, A2 in agent-files.ts) nor changes what judges it
 * (G1, G2 in gate-files.ts).
 */
async function guardDecidingFiles(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
  { kept, judged }: { kept: KeepResult | null; judged: Judgement },
): Promise<Judgement> {
  if (judged.outcome !== "succeeded" || kept === null) return judged;
  const reason =
    (await plantedReason(ports, endpoint, loaded, kept.changed)) ?? (await changedGatesReason(ports, loaded, kept));
  return reason === null ? judged : { outcome: "refused", reason };
}

async function checkFix(ports: Ports, projectId: ProjectId, attempt: AttemptRow, kept: KeepResult): Promise<Finding[]> {
  return ports.gates.staticChecks({
    changed: kept.changed,
    secrets: {},
    before: commitReader(ports, projectId, attempt.baseSha),
    after: commitReader(ports, projectId, kept.commit!),
    changes: [{ taskKey: "fix", writes: null, mayChangeTests: false, files: kept.changed.map((file) => file.path) }],
    agentFiles: [],
  });
}

/**
 * What an agent's own end counts as. That it finished is never one: its checks and its diff decide
 * (W5).
 */
function outcomeOfEnd(end: AgentEnd): AttemptOutcome {
  if (end === "refused" || end === "over-budget") return end;
  return end === "stalled" ? "timed-out" : "failed";
}

async function lastOutput(
  endpoint: SandboxEndpoint,
  attempt: AttemptRow,
  state: JobState,
  mask: Mask,
): Promise<string> {
  const stage = failedStage(state) ?? state.stages.findLast((candidate) => candidate.outputStart !== null);
  if (stage === undefined || state.status === "lost") return "";
  return stageOutput(endpoint, attempt.jobKey, stage, mask);
}

/** Settles the attempt and whatever follows from it, in one commit. */
export async function settleAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, wave, build } = loaded;
  if (attempt.status !== "finishing" || attempt.fence !== refer.fence) return;
  // Before it may be tried again, and so that nobody else goes on seeing it.
  if (sharesTree(attempt)) await clearPaths(ports, await ensureSandbox(ports, build), attempt);
  if (attempt.kind !== "task" && attempt.verdict?.outcome === "succeeded" && attempt.commitSha !== null) {
    // A projection of the row below: repeated with the same values after a crash.
    const ref = waveRef(attempt.buildId, wave.number);
    await ports.workspace.moveRef(build.projectId, ref, attempt.commitSha, attempt.baseSha);
  }
  await writePlanOut(ports, loaded);
  await ports.store.transaction("settle-attempt", async (transaction) => {
    const locked = await transaction.lockBuild(attempt.buildId);
    await settleIn(transaction, ports, refer);
    await advance(transaction, ports, attempt.buildId, { locked });
  });
}

async function settleIn(transaction: StoreTransaction, ports: Ports, refer: AttemptRefer): Promise<void> {
  const { attempt, task } = await transaction.attemptInContext(refer.attemptId);
  if (attempt.fence !== refer.fence || attempt.status === "settled") return;
  const verdict = attempt.verdict ?? {
    outcome: "lost" as const,
    reason: "its sandbox could not be reached",
    summary: null,
    changed: [],
  };
  const [settled] = await transaction.attempts.update(
    { id: attempt.id, fence: refer.fence },
    { status: "settled", outcome: verdict.outcome, reason: verdict.reason, endedAt: ports.clock.now() },
  );
  if (task !== null) await settleTask(transaction, ports, { attempt: settled!, task });
  else await settleHeadAttempt(transaction, ports, settled!);
}

async function settleTask(
  transaction: StoreTransaction,
  ports: Ports,
  { attempt, task }: { attempt: AttemptRow; task: TaskRow },
): Promise<void> {
  const set = (patch: Partial<TaskRow>) => transaction.tasks.update({ id: task.id }, patch);
  switch (attempt.outcome) {
    case "succeeded":
      await applyPlan(transaction, ports, attempt);
      await set({
        status: "joining",
        commitSha: attempt.verdict?.plan === undefined ? attempt.commitSha : null,
        summary: attempt.verdict?.summary ?? null,
        changedFiles: attempt.verdict?.changed ?? [],
        reason: null,
      });
      return;
    case "cancelled":
      await set({ status: "cancelled", reason: attempt.reason });
      return;
    case "lost":
      if (task.losses < maxLosses) {
        await set({ status: "assigned", losses: task.losses + 1, epoch: task.epoch + 1 });
        return;
      }
      break;
    case "over-budget":
      break;
    default:
      if (task.retriesUsed < task.definition.retries) {
        await set({
          status: "assigned",
          retriesUsed: task.retriesUsed + 1,
          epoch: task.epoch + 1,
          reason: attempt.reason,
        });
        return;
      }
  }
  await set({ status: "failed", reason: attempt.reason, endedAt: ports.clock.now() });
  const build = await transaction.builds.get({ id: attempt.buildId });
  const wave = await transaction.waves.get({ id: attempt.waveId });
  await emitFor(transaction, build, "agent/task.failed", task.id, task.epoch, {
    waveNumber: wave.number,
    taskId: task.id,
    taskKey: task.key,
    outcome: attempt.outcome!,
    reason: attempt.reason ?? "",
  });
}

/** A fix or generated files: a new head repeats every gate (W7). */
async function settleHeadAttempt(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const wave = await transaction.waves.get({ id: attempt.waveId });
  const build = await transaction.builds.get({ id: attempt.buildId });
  if (attempt.outcome === "succeeded") {
    await transaction.waves.update(
      { id: wave.id },
      { status: "gating", headSha: attempt.commitSha ?? attempt.baseSha },
    );
    return;
  }
  const { kind, epoch } = attempt;
  const lost = await transaction.attempts.list({ waveId: wave.id, kind, epoch, outcome: "lost" });
  if (attempt.outcome === "lost" && lost.length <= maxLosses && build.status === "running") {
    await repeatHeadAttempt(transaction, ports, attempt);
    return;
  }
  if (attempt.kind === "fix") {
    await transaction.waves.update({ id: wave.id }, { status: "gating" });
    return;
  }
  if (build.status !== "running") return; // a cancelled build cancels the wave itself
  const reason = `generated files could not be made again: ${attempt.reason}`;
  await transaction.waves.update({ id: wave.id }, { status: "blocked", reason, endedAt: ports.clock.now() });
  await emitFor(transaction, build, "project/wave.blocked", wave.id, wave.epoch, { waveNumber: wave.number, reason });
}

async function repeatHeadAttempt(transaction: StoreTransaction, ports: Ports, attempt: AttemptRow): Promise<void> {
  const wave = await transaction.waves.get({ id: attempt.waveId });
  const build = await transaction.builds.get({ id: attempt.buildId });
  const { kind, role, gateRunId, approvalId, paths, baseSha } = attempt;
  if (kind === "task") return;
  const again = await addHeadAttempt(
    transaction,
    ports,
    { build, wave, baseSha },
    { kind, role, gateRunId, approvalId, paths },
  );
  await askHeadAttempt(transaction, build, wave.number, { ...again, kind, role });
}

/**
 * Asks for an attempt on a wave's head: `agent/quality.fix`, or `agent/execution.<role>` for
 * generated files.
 */
export async function askHeadAttempt(
  transaction: StoreTransaction,
  build: Parameters<typeof emitFor>[1],
  waveNumber: number,
  what: { id: string; number: number; kind: "fix" | "generate"; role: string },
): Promise<void> {
  const { id, number, role } = what;
  const ref = { waveNumber, attemptId: id, taskId: null, taskKey: null, attempt: number, fence: 0 };
  if (what.kind === "fix") {
    await emitFor(transaction, build, "agent/quality.fix", id, 0, { ...ref, gate: "repeated", round: number });
  } else await emitFor(transaction, build, `agent/execution.${role}`, id, 0, { ...ref, role });
}

/**
 * Removes what the settled attempt left on the volume; work that could not be kept before is kept
 * first (W8).
 */
export async function closeAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, build } = loaded;
  if (attempt.status !== "settled") return;
  const endpoint = await ensureSandbox(ports, build);
  const hadJob = await dropJob(ports, endpoint, attempt.jobKey);
  // In a tree that others share the task's next attempt may be at work: whoever starts it, or joins
  // the wave, keeps it.
  if (hadJob && attempt.commitSha === null && !sharesTree(attempt)) {
    const kept = await keepTree(ports, endpoint, loaded).catch((error: unknown) => {
      if (!isDiskFull(error)) throw error;
      ports.log.warn(
        `no room to keep the work of an attempt; it is left in ${attempt.treePath} of its sandbox's volume`,
      );
      return "no-room" as const;
    });
    if (kept === "no-room") return;
    if (kept?.commit != null)
      await ports.store.attempts.update({ id: attempt.id, commitSha: null }, { commitSha: kept.commit });
  }
  // Another attempt may go on with the session of one that failed.
  const homes = attempt.outcome === "succeeded" ? homesOf(loaded) : [];
  await Promise.all([
    sharesTree(attempt)
      ? closeSharedTree(ports, { ...loaded, treePath: attempt.treePath })
      : ports.workspace.closeTree(endpoint.guest, attempt.treePath),
    ...[handoverPath(attempt.jobKey), ...homes].map((path) => endpoint.guest.remove(path, { recursive: true })),
    endpoint.guest.forgetJob(attempt.jobKey),
  ]);
}

/** Settles an attempt that could not even be started, as lost to infrastructure (W4). */
export async function loseAttempt(ports: Ports, refer: AttemptRefer, reason: string): Promise<void> {
  const { attempt, build } = await loadAttempt(ports, refer.attemptId);
  const why = (await attemptMask(ports, build, attempt))(reason);
  await ports.store.transaction("lose-attempt", async (transaction) => {
    const locked = await transaction.lockBuild(attempt.buildId);
    const [lost] = await transaction.attempts.update(
      { id: attempt.id, fence: refer.fence, status: liveAttemptStatuses },
      { status: "finishing", verdict: { outcome: "lost", reason: why, summary: null, changed: [] } },
    );
    if (lost === undefined) return;
    await settleIn(transaction, ports, refer);
    await advance(transaction, ports, attempt.buildId, { locked });
  });
}
