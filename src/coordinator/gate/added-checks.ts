import { type AddedCheck, type AddedChecks, addedText, checkOutput } from "../../domain/added-checks.ts";
import type { Evidence, Finding } from "../../domain/finding.ts";
import { gateRole } from "../../domain/plan.ts";
import type { JudgedCheck } from "../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { GateRunRow } from "../../store/port.ts";
import type { JobSetting } from "../job/frame-job.ts";
import { describeFailure, failedStage, gateMask, overBudget, stageOutput } from "../job/job-results.ts";
import { shell, stage } from "../job/job-stages.ts";
import { gateTreePath } from "../names.ts";
import type { Ports } from "../port.ts";
import type { RunInWave } from "./ask-gate.ts";
import { proposedChecks } from "./gate-agent.ts";
import type { Judged } from "./gate-verdict.ts";

// What an agent adds to the testing or integration gate.
//
// A1. Our own checks are judged first. Only when they passed, or when there are none, is anything
// added.
// A2. What is added is run by us, on a clean tree of the run's commit. It can make the gate fail,
// and never pass: a gate that is absent stays absent, with what was run as its evidence (W6).
// A3. What could not be run, or was not proposed, is told in the run's notes, and the gate goes by
// its own checks.
// A4. An agent is asked at most once about a commit, and no more once it has added checks in the
// wave: those are run again.
// A5. Where a run stands is kept in its evidence, so that whatever is lost from here on costs only
// that part.

const longestCheckMs = 5 * 60_000;

/**
 * What follows in a run: it goes on with this evidence, in a job of its own, or it has come to an
 * end.
 */
export type NextOfRun = { readonly goOn: Evidence } | Judged;

/** What follows once our own checks are judged. */
export async function afterOwnChecks(ports: Ports, { run, build, wave }: RunInWave, own: Judged): Promise<NextOfRun> {
  const role = gateRole(build.plan, run.gate);
  const { verdict, reason, evidence } = own;
  if (role === null || evidence === null || (verdict !== "passed" && verdict !== "absent")) return own;
  const begun = { role, phase: null, asked: false, own: { verdict, reason }, lack: null, checks: [] };
  const runs = await ports.store.gateRuns.list({ waveId: wave.id, gate: run.gate }, { by: "round", descending: true });
  const before = runs.filter(({ id, evidence }) => id !== run.id && evidence?.added?.role === role);
  const known = before.flatMap((one) => one.evidence?.added ?? []).find(({ checks }) => checks.length > 0);
  if (known !== undefined) return runChecks(evidence, { ...begun, checks: known.checks.map(afresh) });
  if (before.some(({ sha, evidence }) => sha === run.sha && wasHeard(evidence))) {
    return settled(evidence, { ...begun, lack: "it was asked about this commit before, and added none" });
  }
  return { goOn: { ...evidence, added: { ...begun, phase: "asking", asked: true } } };
}

const afresh = (check: AddedCheck): AddedCheck => ({ ...check, result: null });

/** An agent that was asked; one whose build was cancelled while it was at work was not heard. */
const wasHeard = (evidence: Evidence | null): boolean =>
  evidence?.added?.asked === true && evidence.added.phase !== "asking";

/** Goes on to run the checks; when none of them may be run there is nothing to wait for. */
function runChecks(evidence: Evidence, added: AddedChecks): NextOfRun {
  if (added.checks.some(({ refused }) => refused === null)) {
    return { goOn: { ...evidence, added: { ...added, phase: "running" } } };
  }
  return settled(evidence, { ...added, checks: added.checks.map((check) => unrun(check, check.refused!)) });
}

/** What follows once the job is over in which the agent was asked, or its checks were run. */
export async function afterAdded(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<NextOfRun> {
  const evidence = loaded.run.evidence!;
  const added = evidence.added!;
  if (added.phase === "running") return judgeChecks(ports, endpoint, loaded, state);
  const proposed = await proposedChecks(ports, endpoint, loaded, state);
  if ("lack" in proposed) return settled(evidence, { ...added, lack: proposed.lack });
  return runChecks(evidence, { ...added, checks: proposed.checks });
}

/**
 * The run as it ends when its part that is under way came to nothing; null when our own checks were
 * never judged.
 */
export function withoutAdded({ evidence }: Pick<GateRunRow, "evidence">, why: string): Judged | null {
  const added = evidence?.added;
  if (added === undefined || added.phase === null) return null;
  if (added.phase === "asking") return settled(evidence!, { ...added, lack: why });
  return settled(evidence!, { ...added, checks: added.checks.map((check) => unrun(check, check.refused ?? why)) });
}

const unrun = (check: AddedCheck, note: string): AddedCheck => ({
  ...check,
  result: { outcome: "not-run", exitCode: null, durationMs: 0, outputTail: "", note },
});

const stageName = (index: number): string => `added check ${index + 1}`;

/** The checks as stages, in a job of their own. */
export function addedStages({ run, build }: RunInWave, setting: JobSetting, treePath: string): StageSpec[] {
  const gate = build.plan.gates[run.gate];
  const timeoutMs = gate !== false && "timeoutMs" in gate ? Math.min(gate.timeoutMs, longestCheckMs) : longestCheckMs;
  const base = { env: setting.env, cwd: treePath, timeoutMs, continueOnFailure: true };
  return run.evidence!.added!.checks.flatMap(({ command, refused }, index) =>
    refused === null ? [stage({ ...base, name: stageName(index), argv: shell(command) })] : [],
  );
}

async function judgeChecks(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<NextOfRun> {
  const { run, build, wave } = loaded;
  const evidence = run.evidence!;
  const cover = await gateMask(ports, build, run);
  const tree = gateTreePath(wave.number, run);
  const before = failedStage({ ...state, stages: state.stages.filter(({ name }) => !name.startsWith("added check")) });
  const spent = state.cancelReason === overBudget ? "the time limit of the plan was used up before it" : null;
  const jobEnd = before === null ? spent : describeFailure(before);
  const judged: JudgedCheck[] = [];
  for (const [index, check] of evidence.added!.checks.entries()) {
    const ran = state.stages.find(({ name }) => name === stageName(index)) ?? null;
    const output = ran === null ? "" : await stageOutput(endpoint, run.jobKey!, ran, cover);
    const missing = await absentOf(endpoint, tree, check.needs);
    judged.push(ports.gates.judgeAddedCheck({ sha: run.sha, check, stage: ran, output, missing, jobEnd }));
  }
  const checks = evidence.added!.checks.map((check, index) => ({ ...check, result: judged[index]!.result }));
  return settled(
    evidence,
    { ...evidence.added!, checks },
    judged.flatMap(({ findings }) => findings),
  );
}

async function absentOf({ guest }: SandboxEndpoint, tree: string, paths: readonly string[]): Promise<string[]> {
  const stats = await Promise.all(paths.map((path) => guest.stat(`${tree}/${path}`)));
  return paths.filter((_, index) => stats[index] === null);
}

/** The run's end: what our own checks said, unless one that was added has failed (A2). */
function settled(evidence: Evidence, added: AddedChecks, findings: Finding[] = []): Judged {
  const over = { ...added, phase: null };
  const failed = over.checks.filter(({ result }) => result?.outcome === "failed");
  const notes = [...evidence.notes, addedText(over), ...over.checks.flatMap(whyNotRun)];
  if (failed.length === 0) {
    const { verdict, reason } = added.own;
    return { verdict, reason, fixable: false, evidence: { ...evidence, notes, added: over }, findings: [] };
  }
  return {
    verdict: "failed",
    reason: failedText(over, failed),
    fixable: true,
    evidence: { ...evidenceOf(evidence, failed), notes: [...ownNotes(evidence), ...notes], added: over },
    findings,
  };
}

const whyNotRun = ({ name, result }: AddedCheck): string[] =>
  result?.outcome === "not-run" ? [`${name}: could not be run: ${result.note}`] : [];

const ownNotes = ({ command, exitCode }: Evidence): string[] =>
  command === null ? [] : [`the gate's own checks held: ${command}${exitCode === null ? "" : `, exit ${exitCode}`}`];

function failedText({ role, checks }: AddedChecks, failed: readonly AddedCheck[]): string {
  const [first] = failed;
  if (failed.length === 1) return `${first!.name}: exit ${first!.result!.exitCode}, a check that agent ${role} added`;
  return `${failed.length} of ${checks.length} checks that agent ${role} added failed: ${failed.map(({ name }) => name).join(", ")}`;
}

/** What the verdict rests on is the check that failed, or the first of them. */
function evidenceOf(own: Evidence, failed: readonly AddedCheck[]): Evidence {
  const [first] = failed;
  const { exitCode, outputTail } = first!.result!;
  const tail = failed.length === 1 ? outputTail : failed.map(checkOutput).join("\n");
  const durationMs = failed.reduce((total, { result }) => total + result!.durationMs, own.durationMs);
  return { ...own, command: first!.command, exitCode, tests: null, outputTail: tail, durationMs };
}
