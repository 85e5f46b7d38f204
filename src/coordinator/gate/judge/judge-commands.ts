import type { Evidence, Finding } from "../../../domain/gate/finding.ts";
import { quantity } from "../../../domain/quantity.ts";
import { gateTreePath } from "../../../domain/sandbox/volume-paths.ts";
import type { GateResult } from "../../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageState } from "../../../sandbox/port.ts";
import { ensureSandbox } from "../../../sandbox-lifecycle/ensure-sandbox.ts";
import { describeFailure, gateMask, stageOutput } from "../../job/job-results.ts";
import type { Ports } from "../../port.ts";
import { type Judged, noEvidence } from "../gate-outcome.ts";
import type { LoadedGate } from "../gate-run.ts";
import type { GateWork } from "../gate-work.ts";
import { earlierCounts } from "./earlier-runs.ts";
import { askedReport, usualReports } from "./test-reports.ts";

/** Judges every command of a testing or integration job; all of them have to pass. */
export async function judgeCommands(
  ports: Ports,
  loaded: LoadedGate,
  work: Extract<GateWork, { kind: "command" }>,
  state: JobState,
): Promise<Judged> {
  const { run, build } = loaded;
  const endpoint = await ensureSandbox(ports, build);
  const mask = await gateMask(ports, build, run);
  const results: { stage: StageState; result: GateResult }[] = [];
  for (const stage of state.stages) {
    if (stage.status === "skipped") continue;
    const main = stage.name === run.gate;
    if (!main && stage.status !== "failed") continue;
    const output = await stageOutput(endpoint, run.jobKey, stage, mask);
    const request = { sha: run.sha, command: main ? work.command : stage.name, stage, output };
    const evidence = main ? await evidenceOfMain(ports, endpoint, loaded, stage) : { junit: [], minTests: null };
    results.push({ stage, result: ports.gates.judgeCommand({ ...request, ...evidence }) });
  }
  return combine(run.sha, work.command, state, results);
}

/** Collects the evidence for judging the gate's own command, besides its exit code. */
async function evidenceOfMain(ports: Ports, endpoint: SandboxEndpoint, loaded: LoadedGate, stage: StageState) {
  const { run, build, wave } = loaded;
  const testing = run.gate === "testing" && build.plan.gates.testing !== false ? build.plan.gates.testing : null;
  const { junit, odd } = await usualReports(endpoint, gateTreePath(wave.number, run), stage);
  return {
    junit,
    oddReports: odd,
    minTests: testing === null ? null : (testing.minTests ?? 1),
    report: await askedReport(endpoint, testing?.report, run.jobKey, stage),
    earlier: await earlierCounts(ports, loaded),
  };
}

/** Returns the time from the first start to the last end, because some stages run in parallel. */
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
    `${ran.length - bad.length} of ${quantity(ran.length, "check")} passed: ${ran.map((stage) => stage.name).join(", ")}`,
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

/** Returns why a command failed; one that exited with 0 failed because of its reports. */
const reasonOf = ({ stage, result }: { stage: StageState; result: GateResult }): string =>
  stage.exitCode === 0 && result.findings[0] !== undefined
    ? `${stage.name}: ${result.findings[0].message}`
    : describeFailure(stage);

const labelled = (stage: StageState, finding: Finding): Finding =>
  /^(testing|integration)$/.test(stage.name) || finding.message.startsWith(stage.name)
    ? finding
    : { ...finding, message: `${stage.name}: ${finding.message}` };
