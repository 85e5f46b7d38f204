import { type AddedCheck, type AddedChecks, addedText, checkOutput } from "../../../domain/gate/added-checks.ts";
import type { Evidence, Finding } from "../../../domain/gate/finding.ts";
import { gateRole } from "../../../domain/plan/plan.ts";
import { gateTreePath } from "../../../domain/sandbox/volume-paths.ts";
import type { JudgedCheck } from "../../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageSpec } from "../../../sandbox/port.ts";
import type { GateRunRow } from "../../../store/port.ts";
import { describeFailure, failedStage, gateMask, overBudget, stageOutput } from "../../job/job-results.ts";
import type { JobSetting } from "../../job/job-setting.ts";
import { shellArgv, stage } from "../../job/job-stages.ts";
import type { Ports } from "../../port.ts";
import type { Judged } from "../gate-outcome.ts";
import { addedEvidence } from "./added-evidence.ts";
import type { RunInWave } from "./agent-question.ts";
import { proposedChecks } from "./proposed-checks.ts";

// Checks that an agent adds to the testing or integration gate.
//
// AC1. Our own checks are judged first. An agent may add checks only if they passed or there are
// none.
// AC2. We run added checks ourselves, on a clean tree of the run's commit. They can make the gate
// fail but never make it pass: an absent gate stays absent, with the added run as its evidence
// (W6).
// AC3. If the agent proposed no checks, or some could not run, the run's notes say so, and the
// gate's own checks decide.
// AC4. An agent is asked at most once per commit. Once it has added checks in a wave, those run
// again instead.
// AC5. The run's progress is stored in its evidence, so that a loss repeats only the current part.

const maxCheckMs = 5 * 60_000;

/** The next part of a run, in its own job with this evidence, or the run's result. */
export type NextOfRun = { readonly goOn: Evidence } | Judged;

/** Decides how a run continues after our own checks. */
export async function afterOwnChecks(ports: Ports, { run, build, wave }: RunInWave, own: Judged): Promise<NextOfRun> {
  const role = gateRole(build.plan, run.gate);
  const { verdict, reason, evidence } = own;
  if (role === null || evidence === null || (verdict !== "passed" && verdict !== "absent")) return own;
  const initial = { role, phase: null, asked: false, own: { verdict, reason }, lack: null, checks: [] };
  const runs = await ports.store.gateRuns.list({ waveId: wave.id, gate: run.gate }, { by: "round", descending: true });
  const before = runs.filter(({ id, evidence }) => id !== run.id && evidence?.added?.role === role);
  const known = before.flatMap((one) => one.evidence?.added ?? []).find(({ checks }) => checks.length > 0);
  if (known !== undefined) return runChecks(evidence, { ...initial, checks: known.checks.map(afresh) });
  if (before.some(({ sha, evidence }) => sha === run.sha && hasAnswered(evidence))) {
    return settled(evidence, { ...initial, lack: "it was already asked about this commit and added none" });
  }
  return { goOn: { ...evidence, added: { ...initial, phase: "asking", asked: true } } };
}

const afresh = (check: AddedCheck): AddedCheck => ({ ...check, result: null });

/** Whether the agent was asked and answered; a build cancelled meanwhile does not count. */
const hasAnswered = (evidence: Evidence | null): boolean =>
  evidence?.added?.asked === true && evidence.added.phase !== "asking";

/** Continues with running the checks, or ends the run if none of them may run. */
function runChecks(evidence: Evidence, added: AddedChecks): NextOfRun {
  if (added.checks.some(({ refused }) => refused === null)) {
    return { goOn: { ...evidence, added: { ...added, phase: "running" } } };
  }
  return settled(evidence, { ...added, checks: added.checks.map((check) => unrun(check, check.refused ?? "")) });
}

/** Decides how a run continues after the agent was asked, or after its checks ran. */
export async function afterAdded(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<NextOfRun> {
  const evidence = addedEvidence(loaded.run);
  const { added } = evidence;
  if (added.phase === "running") return judgeChecks(ports, endpoint, loaded, state);
  const proposed = await proposedChecks(ports, endpoint, loaded, state);
  if ("lack" in proposed) return settled(evidence, { ...added, lack: proposed.lack });
  return runChecks(evidence, { ...added, checks: proposed.checks });
}

/** Returns a run's result if its current part failed; null if our own checks were never judged. */
export function withoutAdded({ evidence }: Pick<GateRunRow, "evidence">, why: string): Judged | null {
  const added = evidence?.added;
  if (evidence === null || added === undefined || added.phase === null) return null;
  if (added.phase === "asking") return settled(evidence, { ...added, lack: why });
  return settled(evidence, { ...added, checks: added.checks.map((check) => unrun(check, check.refused ?? why)) });
}

const unrun = (check: AddedCheck, note: string): AddedCheck => ({
  ...check,
  result: { outcome: "not-run", exitCode: null, durationMs: 0, outputTail: "", note },
});

const stageName = (index: number): string => `added check ${index + 1}`;

/** Returns the stages that run the checks, for a separate job. */
export function addedStages({ run, build }: RunInWave, setting: JobSetting, treePath: string): StageSpec[] {
  const gate = build.plan.gates[run.gate];
  const timeoutMs = gate !== false && "timeoutMs" in gate ? Math.min(gate.timeoutMs, maxCheckMs) : maxCheckMs;
  const base = { env: setting.env, cwd: treePath, timeoutMs, continueOnFailure: true };
  return addedEvidence(run).added.checks.flatMap(({ command, refused }, index) =>
    refused === null ? [stage({ ...base, name: stageName(index), argv: shellArgv(command) })] : [],
  );
}

async function judgeChecks(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<NextOfRun> {
  const { run, build, wave } = loaded;
  const evidence = addedEvidence(run);
  const mask = await gateMask(ports, build, run);
  const tree = gateTreePath(wave.number, run);
  const before = failedStage({ ...state, stages: state.stages.filter(({ name }) => !name.startsWith("added check")) });
  const spent = state.cancelReason === overBudget ? "the plan's time limit was used up before it ran" : null;
  const jobEnd = before === null ? spent : describeFailure(before);
  const judged: JudgedCheck[] = [];
  for (const [index, check] of evidence.added.checks.entries()) {
    const ran = state.stages.find(({ name }) => name === stageName(index)) ?? null;
    const output = ran === null ? "" : await stageOutput(endpoint, run.jobKey, ran, mask);
    const missing = await absentOf(endpoint, tree, check.needs);
    judged.push(ports.gates.judgeAddedCheck({ sha: run.sha, check, stage: ran, output, missing, jobEnd }));
  }
  const checks = evidence.added.checks.map((check, index) => ({ ...check, result: judged[index]?.result ?? null }));
  return settled(
    evidence,
    { ...evidence.added, checks },
    judged.flatMap(({ findings }) => findings),
  );
}

async function absentOf({ guest }: SandboxEndpoint, tree: string, paths: readonly string[]): Promise<string[]> {
  const stats = await Promise.all(paths.map((path) => guest.stat(`${tree}/${path}`)));
  return paths.filter((_, index) => stats[index] === null);
}

/** Returns the run's result: that of our own checks, unless an added check failed (AC2). */
function settled(evidence: Evidence, added: AddedChecks, findings: Finding[] = []): Judged {
  const over = { ...added, phase: null };
  const failed = over.checks.filter(hasFailed);
  const notes = [...evidence.notes, addedText(over), ...over.checks.flatMap(whyNotRun)];
  const [first] = failed;
  if (first === undefined) {
    const { verdict, reason } = added.own;
    return { verdict, reason, fixable: false, evidence: { ...evidence, notes, added: over }, findings: [] };
  }
  return {
    verdict: "failed",
    reason: failedText(over, first, failed),
    fixable: true,
    evidence: { ...evidenceOf(evidence, first, failed), notes: [...ownNotes(evidence), ...notes], added: over },
    findings,
  };
}

const whyNotRun = ({ name, result }: AddedCheck): string[] =>
  result?.outcome === "not-run" ? [`${name}: could not be run: ${result.note}`] : [];

const ownNotes = ({ command, exitCode }: Evidence): string[] =>
  command === null ? [] : [`the gate's own checks held: ${command}${exitCode === null ? "" : `, exit ${exitCode}`}`];

/** A check that failed, and so has a result. */
type FailedCheck = AddedCheck & { readonly result: NonNullable<AddedCheck["result"]> };

const hasFailed = (check: AddedCheck): check is FailedCheck => check.result?.outcome === "failed";

function failedText(
  { role, checks }: AddedChecks,
  { name, result }: FailedCheck,
  failed: readonly FailedCheck[],
): string {
  if (failed.length === 1) return `${name}: exit ${result.exitCode}, a check that agent ${role} added`;
  return `${failed.length} of ${checks.length} checks that agent ${role} added failed: ${failed.map(({ name }) => name).join(", ")}`;
}

/** Returns evidence based on the first failed check. */
function evidenceOf(own: Evidence, { command, result }: FailedCheck, failed: readonly FailedCheck[]): Evidence {
  const { exitCode, outputTail } = result;
  const tail = failed.length === 1 ? outputTail : failed.map(checkOutput).join("\n");
  const durationMs = failed.reduce((total, { result }) => total + result.durationMs, own.durationMs);
  return { ...own, command, exitCode, tests: null, outputTail: tail, durationMs };
}
