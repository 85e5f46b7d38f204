import { startedAttemptStatuses } from "../../domain/status.ts";
import type { JobState, SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptRow } from "../../store/port.ts";
import { attemptMask, failedStage, jobStateOf, outputTail, stageOutput } from "../job/job-results.ts";
import { isOfEarlierBoot } from "../job/job-stages.ts";
import type { Mask } from "../masking/masking.ts";
import { handoverPath } from "../names.ts";
import { isPlanner, judgePlan } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { type AttemptRefer, type LoadedAttempt, loadAttempt } from "./attempt.ts";
import { guardDecidingFiles, guardFix, guardNames } from "./guard-attempt.ts";
import { explainFailure, type Judgement, judgeAttempt } from "./judge-attempt.ts";
import { keepWork } from "./keep-work.ts";

// W8. Work is kept on a ref of the authority before the tree that holds it is removed.

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
  const judged = judgeAttempt(loaded, { state, isDoubtful, keeping, tail, ended: ports.agents.endOf(output) });
  if (isPlanner(loaded)) {
    const explain = await explainFailure(ports, loaded, state, judged);
    await keepPlan(ports, endpoint, loaded, { judged: explain, mask, tail, commitSha: kept?.commit ?? null });
    return;
  }
  const guarded = await guardDecidingFiles(ports, endpoint, loaded, {
    kept,
    judged: guardNames(
      kept,
      mask,
      await guardFix(ports, loaded, kept, await explainFailure(ports, loaded, state, judged)),
    ),
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
