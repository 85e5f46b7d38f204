import { handoverPath } from "../../domain/sandbox/volume-paths.ts";
import { startedAttemptStatuses } from "../../domain/status.ts";
import type { JobState, SandboxEndpoint } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { AttemptRow } from "../../store/port.ts";
import { attemptMask, failedStage, jobStateOf, outputTail, stageOutput } from "../job/job-results.ts";
import { isOfEarlierBoot } from "../job/job-stages.ts";
import type { Mask } from "../masking/masking.ts";
import { isPlanner, judgePlan } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { type AttemptRef, homesOf, type LoadedAttempt, loadAttempt } from "./attempt.ts";
import { guardDecidingFiles, guardFix, guardNames } from "./attempt-guards.ts";
import { judgeAttempt } from "./judge-attempt.ts";
import { explainFailure, type Judgement } from "./judgement.ts";
import { keepWork } from "./kept-work.ts";

// W8. Work is kept on a ref of the authority before the tree that holds it is removed.

/** Commits the attempt's tree and puts it on the attempt's ref, whatever the outcome is. */
export async function keepAttempt(ports: Ports, attemptRef: AttemptRef): Promise<void> {
  const loaded = await loadAttempt(ports, attemptRef.attemptId);
  const { attempt, build } = loaded;
  // Work is kept only once, because settling may already have restored its paths in a shared tree.
  if (attempt.fence !== attemptRef.fence || !startedAttemptStatuses.includes(attempt.status)) return;
  const endpoint = await ensureSandbox(ports, build);
  const mask = await attemptMask(ports, build, attempt);
  const state = await jobStateOf(ports, attempt.jobKey);
  const [handedIn, keeping] = await Promise.all([
    handedInSummary(ports, endpoint, attempt, mask),
    keepWork(ports, endpoint, loaded, state !== null && failedStage(state) !== null),
  ]);
  const { kept, noRoom } = keeping;
  if (noRoom !== null) ports.log.warn(`the disk is too full to save all work in ${attempt.treePath}: ${noRoom}`);
  const output = state === null ? "" : await lastOutput(endpoint, attempt, state, mask);
  const tail = outputTail(ports.agents.readable(output));
  const isDoubtful = state !== null && isOfEarlierBoot(ports, state);
  const ended = ports.agents.endOf(output);
  const unfinished = await unfinishedCall(ports, loaded);
  const judged = judgeAttempt(loaded, { state, isDoubtful, keeping, tail, ended, unfinished });
  if (isPlanner(loaded)) {
    const explain = await explainFailure(ports, loaded, { state, ended, unfinished }, judged);
    await keepPlan(ports, endpoint, loaded, { judged: explain, mask, tail, commitSha: kept?.commit ?? null });
    return;
  }
  const guarded = await guardDecidingFiles(ports, endpoint, loaded, {
    kept,
    judged: guardNames(
      kept,
      mask,
      await guardFix(ports, loaded, kept, await explainFailure(ports, loaded, { state, ended, unfinished }, judged)),
    ),
  });
  const summary =
    handedIn ?? (guarded.outcome === "succeeded" ? await lastWords(ports, endpoint, attempt, state, mask) : null);
  const changed = kept === null ? [] : kept.changed.map((file) => mask(file.path));
  await ports.store.attempts.update(
    { id: attempt.id, fence: attemptRef.fence, status: startedAttemptStatuses },
    {
      status: "finishing",
      commitSha: kept?.commit ?? null,
      verdict: { ...guarded, reason: guarded.reason === null ? null : mask(guarded.reason), summary, changed },
      outputTail: tail,
    },
  );
}

/**
 * Says why the last model call of an agent that we drive did not finish. A command may use models
 * as it likes, and a planner is judged by its plan.
 */
async function unfinishedCall(ports: Ports, loaded: LoadedAttempt): Promise<string | null> {
  if (homesOf(loaded).length === 0 || isPlanner(loaded)) return null;
  return (await ports.models.unfinished(loaded.attempt.id))?.reason ?? null;
}

/** Keeps a planner's work. Only its submitted plan is judged; changed files are never joined. */
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
    () => null, // a result file too large to read counts as missing; it proves nothing anyway (W5)
  );
  return ports.agents.parseResult(file === null ? null : mask(file.toString("utf8"))).summary;
}

/** Returns an ACP agent's last message, for the tasks that depend on its task. */
async function lastWords(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { jobKey }: AttemptRow,
  state: JobState | null,
  mask: Mask,
): Promise<string | null> {
  const stage = state?.stages.find(({ name }) => name === "agent");
  if (stage === undefined) return null;
  const lastMessage = ports.agents.lastMessage(await stageOutput(endpoint, jobKey, stage, mask));
  // The message arrived in pieces, so a secret may be complete only now.
  return lastMessage === null ? null : mask(lastMessage);
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
