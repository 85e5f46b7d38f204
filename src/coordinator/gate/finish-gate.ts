import { agentFilesAmong } from "../../domain/agent-files.ts";
import type { Evidence, Finding } from "../../domain/finding.ts";
import { liveGateRunStatuses } from "../../domain/status.ts";
import type { GateResult, SortedReview } from "../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageState } from "../../sandbox/port.ts";
import type { GateRunRow, StoreTransaction } from "../../store/port.ts";
import type { ChangedFile } from "../../workspace/port.ts";
import { declaredByTasks } from "../attempt/agent-files.ts";
import { emitFor, gateRunFacts } from "../build-events.ts";
import { commitReader } from "../commit-reader.ts";
import { withDenials } from "../job/denials.ts";
import { describeFailure, gateMask, jobStateOf, maskOf, overBudget, stageOutput } from "../job/job-results.ts";
import { dropJob, isOfEarlierBoot } from "../job/job-stages.ts";
import { gateTreePath, handoverPath } from "../names.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { afterAdded, afterOwnChecks, type NextOfRun, withoutAdded } from "./added-checks.ts";
import { criticAgent, judgeReview, type Reviewed, reviewMissing, secondLookHome } from "./critic-review.ts";
import { earlierCounts } from "./earlier-counts.ts";
import { addedPhase, gateAgentHome } from "./gate-agent.ts";
import { judgeGateFiles } from "./gate-files.ts";
import { askedReport, usualReports } from "./gate-reports.ts";
import { cancelled, type Judged, maskFinding, maskJudged, noEvidence, outOfTime } from "./gate-verdict.ts";
import {
  abandonGate,
  criticChecks,
  type GateRefer,
  type GateWork,
  gateJobKey,
  gateWork,
  jobKeysOf,
  type LoadedGate,
  loadGate,
} from "./start-gate.ts";

const maxLosses = 3;

/**
 * Judges a gate run whose job has ended (or that had none) and settles what follows, in one commit.
 */
export async function finishGate(ports: Ports, refer: GateRefer): Promise<void> {
  const loaded = await loadGate(ports, refer.gateRunId);
  const { run, build } = loaded;
  if (run.fence !== refer.fence || run.status === "finished") return;
  const state = await jobStateOf(ports, run.jobKey!);
  if (state?.status === "cancelled" && build.status !== "running") {
    // What an agent has added is run again by whoever goes on.
    await settle(
      ports,
      refer,
      run.evidence?.added === undefined ? cancelled : { ...cancelled, evidence: run.evidence },
    );
    return;
  }
  const isOutOfTime = state?.status === "cancelled" && state.cancelReason === overBudget;
  if (isOutOfTime && addedPhase(run) === null) {
    await settle(ports, refer, outOfTime);
    return;
  }
  const isLost =
    state?.status === "lost" || state?.status === "cancelled" || (state !== null && isOfEarlierBoot(ports, state));
  if (isLost && !isOutOfTime) {
    await loseGate(ports, refer, state?.status === "lost" ? state.cancelReason : null);
    return;
  }
  const next = await nextOf(ports, loaded, state);
  if ("askAgain" in next) await askSecondLook(ports, loaded, next.askAgain);
  else if ("goOn" in next) await goOn(ports, loaded, next.goOn);
  else await settle(ports, refer, next);
}

/** What the run's job, now that it has ended, comes to. */
async function nextOf(
  ports: Ports,
  loaded: LoadedGate,
  state: JobState | null,
): Promise<NextOfRun | { readonly askAgain: SortedReview }> {
  const { run, build } = loaded;
  const cover = await gateMask(ports, build, run);
  const close = async (judged: Judged) => maskJudged(cover, await explained(ports, loaded, judged));
  if (addedPhase(run) !== null) {
    const next = await afterAdded(ports, await ensureSandbox(ports, build), loaded, state!);
    return "goOn" in next ? next : close(next);
  }
  const own = await judgeGate(ports, loaded, state);
  return "askAgain" in own ? own : afterOwnChecks(ports, loaded, await close(own));
}

/** Asks for the run again, to have its agent asked or what that one added run. */
async function goOn(ports: Ports, loaded: LoadedGate, evidence: Evidence): Promise<void> {
  const name = evidence.added?.phase === "asking" ? "ask-gate-agent" : "run-added-checks";
  await askForMore(ports, name, loaded, evidence);
}

/** A program that could not reach a host seldom says which. */
async function explained(ports: Ports, { run, build }: LoadedGate, judged: Judged): Promise<Judged> {
  const { verdict, reason, evidence } = judged;
  if (reason === null || evidence === null || (verdict !== "failed" && verdict !== "inconclusive")) return judged;
  return { ...judged, reason: await withDenials(ports, build, { reason, since: run.createdAt }) };
}

async function settle(ports: Ports, refer: GateRefer, judged: Judged): Promise<void> {
  const { buildId } = await ports.store.gateRuns.get({ id: refer.gateRunId });
  await ports.store.transaction("finish-gate", async (transaction) => {
    await transaction.lockBuild(buildId);
    const { findings, blocking: counting = findings, ...row } = judged;
    const blocking = judged.verdict === "failed" || judged.verdict === "inconclusive";
    const [finished] = await transaction.gateRuns.update(
      { id: refer.gateRunId, fence: refer.fence, status: liveGateRunStatuses },
      {
        ...row,
        status: "finished",
        fingerprint: blocking ? ports.gates.fingerprint(counting) : null,
        endedAt: ports.clock.now(),
      },
    );
    if (finished === undefined) return;
    await transaction.findings.insertMany(
      findings.map(({ confidence, ...finding }) => ({
        ...finding,
        gateRunId: refer.gateRunId,
        confidence: confidence === null ? null : Math.round(confidence * 100),
      })),
    );
    await advance(transaction, ports, buildId);
  });
}

/** A gate lost to infrastructure is repeated, at most three times (W4, W6). */
export async function loseGate(ports: Ports, refer: GateRefer, why: string | null = null): Promise<void> {
  const { buildId } = await ports.store.gateRuns.get({ id: refer.gateRunId });
  const cover = await maskOf(ports, await ports.store.builds.get({ id: buildId }), null);
  const said = why === null ? null : cover(why);
  await ports.store.transaction("repeat-gate", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const run = await transaction.gateRuns.get({ id: refer.gateRunId });
    if (run.fence !== refer.fence || run.status === "finished") return;
    if (run.losses >= maxLosses || build.status !== "running") {
      const times = `${run.losses + 1} times`;
      const reason = said === null ? `its sandbox died ${times} while it ran` : `it was tried ${times}; last: ${said}`;
      // Our own checks held: what was to be added to them came to nothing.
      const held = build.status === "running" ? withoutAdded(run, reason) : null;
      const { verdict, evidence } = held ?? { verdict: "inconclusive" as const, evidence: run.evidence };
      await transaction.gateRuns.update(
        { id: run.id },
        {
          status: "finished",
          verdict,
          reason: held === null ? reason : held.reason,
          evidence,
          endedAt: ports.clock.now(),
        },
      );
      await advance(transaction, ports, buildId);
      return;
    }
    await repeatGate(transaction, run.id);
  });
}

/** Asks for the same run again, which was lost. */
async function repeatGate(transaction: StoreTransaction, gateRunId: string): Promise<void> {
  const run = await transaction.gateRuns.get({ id: gateRunId });
  await raiseGate(transaction, run, { losses: run.losses + 1 });
}

/** Asks for a run under a higher fence, with a job and a tree of its own. */
async function raiseGate(
  transaction: StoreTransaction,
  run: GateRunRow,
  patch: Partial<Pick<GateRunRow, "losses" | "evidence">>,
): Promise<void> {
  const build = await transaction.builds.get({ id: run.buildId });
  const wave = await transaction.waves.get({ id: run.waveId });
  const fence = run.fence + 1;
  await transaction.gateRuns.update(
    { id: run.id },
    { ...patch, status: "requested", fence, jobKey: gateJobKey(run.id, fence) },
  );
  await emitFor(transaction, build, `agent/quality.${run.gate}`, run.id, fence, gateRunFacts(run, wave, fence));
}

/**
 * Asks for the run again, to have what would block looked at by a fresh session. The first look's
 * findings stay with the run, so that whatever is lost from here on costs only the second.
 */
async function askSecondLook(ports: Ports, { run, build }: LoadedGate, found: SortedReview): Promise<void> {
  const cover = await gateMask(ports, build, run);
  const firstLook = {
    candidates: found.candidates.map((finding) => maskFinding(cover, finding)),
    aside: found.aside.map((finding) => maskFinding(cover, finding)),
  };
  await askForMore(ports, "ask-second-look", { run, build }, { ...noEvidence(run.sha, []), firstLook });
}

/**
 * Asks for the run again, to go on from this evidence: whatever is lost from here on costs only
 * what is asked for.
 */
async function askForMore(
  ports: Ports,
  name: "ask-second-look" | "ask-gate-agent" | "run-added-checks",
  { run, build }: Pick<LoadedGate, "run" | "build">,
  evidence: Evidence,
): Promise<void> {
  await ports.store.transaction(name, async (transaction) => {
    const { status } = await transaction.lockBuild(build.id);
    const present = await transaction.gateRuns.get({ id: run.id });
    if (present.fence !== run.fence || present.status === "finished") return;
    if (status !== "running") {
      await abandonGate(transaction, ports, run.id);
      await advance(transaction, ports, build.id);
      return;
    }
    await raiseGate(transaction, present, { evidence });
  });
}

async function judgeGate(
  ports: Ports,
  loaded: LoadedGate,
  state: JobState | null,
): Promise<Judged | { readonly askAgain: SortedReview }> {
  const work = await gateWork(ports, loaded);
  if (work.kind === "verdict") return judgeIdle(ports, loaded, work);
  if (work.kind === "checks") return judgeChecks(ports, loaded, state);
  if (state === null) throw new Error(`gate run ${loaded.run.id} has no job state`);
  return judgeJob(ports, loaded, work, state);
}

/** A gate that passed in an earlier wave cannot become absent (W6). */
async function judgeIdle(
  ports: Ports,
  { run, build }: LoadedGate,
  work: Extract<GateWork, { kind: "verdict" }>,
): Promise<Judged> {
  const before = await ports.store.gateRuns.find({ buildId: build.id, gate: run.gate, verdict: "passed" });
  const evidence = noEvidence(run.sha, [work.note]);
  if (work.verdict !== "absent" || before === null) {
    return { verdict: work.verdict, reason: work.note, fixable: false, evidence, findings: [] };
  }
  const message = `the ${run.gate} gate passed before, but now ${work.note}`;
  const finding = {
    rule: "gate-vanished",
    severity: "high" as const,
    message,
    file: null,
    line: null,
    confidence: null,
  };
  return { verdict: "inconclusive", reason: message, fixable: true, evidence, findings: [finding] };
}

async function judgeChecks(
  ports: Ports,
  loaded: LoadedGate,
  state: JobState | null,
): Promise<Judged | { readonly askAgain: SortedReview }> {
  const { run, build, wave, tasks } = loaded;
  const settings = build.plan.gates.critic;
  if (settings === false) throw new Error("the critic is switched off");
  const changed = await ports.workspace.changedFiles(build.projectId, wave.baseSha, run.sha);
  const members = tasks.filter((task) => task.waveId === wave.id && task.status === "completed");
  const everyMay = members.length > 0 && members.every((task) => task.definition.mayChangeTests);
  // A fix declares nothing: it may change the agents' files that a task of its wave names.
  const named = declaredByTasks(members);
  const fixes = (await fixChanges(ports, loaded, everyMay)).map((fix) => ({ ...fix, names: named }));
  const attributed = [
    ...members.map((task) => ({
      taskKey: task.key,
      writes: task.definition.writes,
      names: task.definition.writes ?? [],
      mayChangeTests: task.definition.mayChangeTests,
      files: task.changedFiles,
    })),
    ...fixes,
  ];
  const known = new Set(attributed.flatMap((change) => change.files));
  // What no attempt changed, a person put on the wave's branch; a person may change tests.
  const byPerson = changed.map((file) => file.path).filter((path) => !known.has(path));
  const gateFiles = await gateFilesOf(ports, loaded, changed, attributed);
  const findings = await ports.gates.staticChecks({
    changed,
    secrets: ports.secrets.values(build.plan.secrets),
    before: commitReader(ports, build.projectId, wave.baseSha),
    after: commitReader(ports, build.projectId, run.sha),
    changes: [...attributed, { taskKey: "person", writes: null, mayChangeTests: true, files: byPerson }],
    agentFiles: attributed.flatMap(({ taskKey, names, files }) =>
      agentFilesAmong(files, names).map((found) => ({ taskKey, ...found })),
    ),
    gateFiles,
  });
  const notes = [`${counted(changed.length, "changed file")} checked`];
  if (state !== null) findings.push(...(await syntaxFindings(ports, loaded, state)));
  const review = state === null || criticAgent(build) === null ? null : await reviewed(ports, loaded, state);
  if (review?.askAgain != null) return { askAgain: review.askAgain };
  notes.push(...(review?.notes ?? []));
  const blocking = [...findings, ...(review?.blocking ?? [])];
  const verdict = ports.gates.judgeFindings(blocking, settings.block);
  const evidence = {
    ...noEvidence(run.sha, notes),
    command: "static checks",
    durationMs: elapsed(run.createdAt, ports.clock.now()),
  };
  return {
    verdict,
    reason: verdict === "failed" ? `findings at or above ${settings.block}` : null,
    fixable: ports.gates.judgeFindings(blocking.filter(isMendable), settings.block) === "failed",
    evidence,
    findings: [...blocking, ...(review?.aside ?? [])],
    blocking,
  };
}

/**
 * What the wave changed that decides what gates run, each file under the task or fix that changed
 * it.
 */
async function gateFilesOf(
  ports: Ports,
  { run, build, wave, tasks }: LoadedGate,
  changed: readonly ChangedFile[],
  changes: readonly {
    readonly taskKey: string;
    readonly names: readonly string[];
    readonly mayChangeTests: boolean;
    readonly files: readonly string[];
  }[],
) {
  const judged = changes.map(async ({ taskKey, names, mayChangeTests, files }) => {
    const own = new Set(files);
    const found = await judgeGateFiles(ports, build, tasks, {
      before: wave.baseSha,
      after: run.sha,
      changed: changed.filter(({ path }) => own.has(path)),
      writes: names,
      mayChangeTests,
    });
    return found.map((file) => ({ taskKey, ...file }));
  });
  return (await Promise.all(judged)).flat();
}

const isMendable = ({ rule }: Finding): boolean => rule !== reviewMissing;

const counted = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`;
const elapsed = (from: Date, to: Date): number => to.getTime() - from.getTime();

async function fixChanges(ports: Ports, { build, wave }: LoadedGate, everyMay: boolean) {
  const fixes = await ports.store.attempts.list(
    { waveId: wave.id, kind: "fix", outcome: "succeeded" },
    { by: "number" },
  );
  const changes = [];
  for (const fix of fixes) {
    if (fix.commitSha === null) continue;
    const files = await ports.workspace.changedFiles(build.projectId, fix.baseSha, fix.commitSha);
    changes.push({ taskKey: "fix", writes: null, mayChangeTests: everyMay, files: files.map((file) => file.path) });
  }
  return changes;
}

/** Findings of the syntax checks that ran in the sandbox. */
async function syntaxFindings(ports: Ports, loaded: LoadedGate, state: JobState): Promise<Finding[]> {
  const { run, build } = loaded;
  const endpoint = await ensureSandbox(ports, build);
  const cover = await gateMask(ports, build, run);
  const found: Finding[] = [];
  for (const check of await criticChecks(ports, loaded)) {
    const stage = state.stages.find((candidate) => candidate.name === check.name);
    if (stage === undefined || stage.status !== "failed") continue;
    found.push(...ports.gates.syntaxFindings(check, stage, await stageOutput(endpoint, run.jobKey!, stage, cover)));
  }
  return found;
}

const reviewed = async (ports: Ports, loaded: LoadedGate, state: JobState): Promise<Reviewed> =>
  judgeReview(ports, await ensureSandbox(ports, loaded.build), loaded, state);

/** Testing and integration: every command of the job is judged, and all of them have to hold. */
async function judgeJob(
  ports: Ports,
  loaded: LoadedGate,
  work: Extract<GateWork, { kind: "command" }>,
  state: JobState,
): Promise<Judged> {
  const { run, build } = loaded;
  const endpoint = await ensureSandbox(ports, build);
  const cover = await gateMask(ports, build, run);
  const results: { stage: StageState; result: GateResult }[] = [];
  for (const stage of state.stages) {
    if (stage.status === "skipped") continue;
    const main = stage.name === run.gate;
    if (!main && stage.status !== "failed") continue;
    const output = await stageOutput(endpoint, run.jobKey!, stage, cover);
    const request = { sha: run.sha, command: main ? work.command : stage.name, stage, output };
    const evidence = main ? await evidenceOfMain(ports, endpoint, loaded, stage) : { junit: [], minTests: null };
    results.push({ stage, result: ports.gates.judgeCommand({ ...request, ...evidence }) });
  }
  return combine(run.sha, work.command, state, results);
}

/** What the gate's own command is judged by, besides how it ended. */
async function evidenceOfMain(ports: Ports, endpoint: SandboxEndpoint, loaded: LoadedGate, stage: StageState) {
  const { run, build, wave } = loaded;
  const testing = run.gate === "testing" && build.plan.gates.testing !== false ? build.plan.gates.testing : null;
  const { junit, odd } = await usualReports(endpoint, gateTreePath(wave.number, run), stage);
  return {
    junit,
    oddReports: odd,
    minTests: testing === null ? null : (testing.minTests ?? 1),
    report: await askedReport(endpoint, testing?.report, run.jobKey!, stage),
    earlier: await earlierCounts(ports, loaded),
  };
}

/**
 * From the first beginning to the last end: a service and the preview run beside the other stages.
 */
function spanMs(stages: readonly StageState[]): number {
  const times = (pick: (stage: StageState) => string | null): number[] =>
    stages.flatMap((stage) => {
      const time = Date.parse(pick(stage) ?? "");
      return Number.isNaN(time) ? [] : [time];
    });
  const [begun, ended] = [times((stage) => stage.startedAt), times((stage) => stage.endedAt)];
  if (begun.length === 0 || ended.length === 0) return 0;
  return Math.max(0, Math.max(...ended) - Math.min(...begun));
}

function combine(
  sha: string,
  command: string,
  state: JobState,
  results: readonly { stage: StageState; result: GateResult }[],
): Judged {
  const bad = results.filter(({ result }) => result.verdict !== "passed");
  const ran = state.stages.filter((stage) => stage.status !== "skipped");
  const worst = bad.find(({ result }) => result.reason === "command-not-found") ?? bad[0];
  const shown = worst ?? results[0];
  const evidence: Evidence = {
    ...(shown?.result.evidence ?? noEvidence(sha, [])),
    command: shown === undefined ? command || ran.map((stage) => stage.name).join(", ") : shown.result.evidence.command,
    durationMs: spanMs(ran),
  };
  const notes = [
    ...evidence.notes,
    `${ran.length - bad.length} of ${counted(ran.length, "stage")} held: ${ran.map((stage) => stage.name).join(", ")}`,
  ];
  const findings = bad.flatMap(({ stage, result }) => result.findings.map((finding) => labelled(stage, finding)));
  if (worst === undefined)
    return {
      verdict: "passed",
      reason: null,
      fixable: false,
      evidence: { ...evidence, notes, exitCode: evidence.exitCode ?? 0 },
      findings: [],
    };
  const { verdict, reason } = worst.result;
  return {
    verdict,
    reason: reason === null ? reasonOf(worst) : `${worst.stage.name}: ${reason.replaceAll("-", " ")}`,
    fixable: reason !== "command-not-found",
    evidence: { ...evidence, notes },
    findings,
  };
}

/** A command that ended with 0 failed by what its reports say. */
const reasonOf = ({ stage, result }: { stage: StageState; result: GateResult }): string =>
  stage.exitCode === 0 && result.findings[0] !== undefined
    ? `${stage.name}: ${result.findings[0].message}`
    : describeFailure(stage);

const labelled = (stage: StageState, finding: Finding): Finding =>
  /^(testing|integration)$/.test(stage.name) ? finding : { ...finding, message: `${stage.name}: ${finding.message}` };

/** Removes what the finished run left on the volume. */
export async function closeGate(ports: Ports, refer: GateRefer): Promise<void> {
  const loaded = await loadGate(ports, refer.gateRunId);
  const { run, build, wave } = loaded;
  if (run.status !== "finished") return;
  const jobs = await ports.store.jobs.list({ key: jobKeysOf(run) });
  if (jobs.length === 0 && run.losses === 0) return; // there was nothing to run
  const endpoint = await ensureSandbox(ports, build);
  for (const [fence, key] of jobKeysOf(run).entries()) {
    await dropJob(ports, endpoint, key);
    await ports.workspace.closeTree(endpoint.guest, gateTreePath(wave.number, { ...run, fence }));
    await endpoint.guest.remove(handoverPath(key), { recursive: true });
    if (run.gate === "critic") await endpoint.guest.remove(secondLookHome(loaded, fence), { recursive: true });
    if (run.evidence?.added?.asked) await endpoint.guest.remove(gateAgentHome(loaded, fence), { recursive: true });
    await endpoint.guest.forgetJob(key);
  }
}
