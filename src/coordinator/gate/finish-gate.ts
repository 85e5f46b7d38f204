import { present } from "../../domain/known.ts";
import type { JobState } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { withDenials } from "../job/denials.ts";
import { gateMask, jobStateOf, overBudget } from "../job/job-results.ts";
import { isOfEarlierBoot } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { afterAdded, afterOwnChecks } from "./agent/added-checks.ts";
import { firstLookEvidence } from "./agent/critic-review.ts";
import { addedPhase } from "./agent/proposed-checks.ts";
import { cancelled, type GateOutcome, type Judged, maskJudged, noEvidence, outOfTime } from "./gate-outcome.ts";
import { type GateRunRef, type LoadedGate, loadGate } from "./gate-run.ts";
import { type GateWork, gateWork } from "./gate-work.ts";
import { judgeCommands } from "./judge/judge-commands.ts";
import { judgeCritic } from "./judge/judge-critic.ts";
import { settleGate } from "./settle-gate.ts";

/**
 * Judges a gate run whose job has ended, or that had none, and settles it. Safe to call twice: a
 * run with another fence stays as it is.
 */
export async function finishGate(ports: Ports, gateRunRef: GateRunRef): Promise<void> {
  const loaded = await loadGate(ports, gateRunRef.gateRunId);
  const { run } = loaded;
  if (run.fence !== gateRunRef.fence || run.status === "finished") return;
  const state = await jobStateOf(ports, run.jobKey);
  const outcome = outcomeWithoutEvidence(ports, loaded, state) ?? (await judgeGateRun(ports, loaded, state));
  await settleGate(ports, gateRunRef, outcome);
}

/** Returns the outcome of a run whose job was cancelled or lost; null if its evidence counts. */
function outcomeWithoutEvidence(ports: Ports, { run, build }: LoadedGate, state: JobState | null): GateOutcome | null {
  if (state?.status === "cancelled" && build.status !== "running") {
    // Checks that an agent has added run again when the build continues.
    const evidence = run.evidence?.added === undefined ? null : run.evidence;
    return { kind: "verdict", judged: { ...cancelled, evidence } };
  }
  if (state?.status === "cancelled" && state.cancelReason === overBudget)
    return addedPhase(run) === null ? { kind: "verdict", judged: outOfTime } : null;
  if (state?.status === "lost") return { kind: "lost", reason: state.cancelReason };
  const isLost = state?.status === "cancelled" || (state !== null && isOfEarlierBoot(ports, state));
  return isLost ? { kind: "lost", reason: null } : null;
}

async function judgeGateRun(ports: Ports, loaded: LoadedGate, state: JobState | null): Promise<GateOutcome> {
  const { run, build } = loaded;
  const mask = await gateMask(ports, build, run);
  const explain = async (judged: Judged) => maskJudged(mask, await explainVerdict(ports, loaded, judged));
  if (addedPhase(run) !== null) {
    const next = await afterAdded(ports, await ensureSandbox(ports, build), loaded, present(state, "the job"));
    return "goOn" in next ? { kind: "goes-on", evidence: next.goOn } : { kind: "verdict", judged: await explain(next) };
  }
  const own = await judgeOwnChecks(ports, loaded, state);
  if ("askAgain" in own) return { kind: "goes-on", evidence: firstLookEvidence(mask, run, own.askAgain) };
  const next = await afterOwnChecks(ports, loaded, await explain(own));
  return "goOn" in next ? { kind: "goes-on", evidence: next.goOn } : { kind: "verdict", judged: next };
}

/**
 * Adds the hosts that were denied, because a program that could not reach one seldom says which.
 */
async function explainVerdict(ports: Ports, { run, build }: LoadedGate, judged: Judged): Promise<Judged> {
  const { verdict, reason, evidence } = judged;
  if (reason === null || evidence === null || (verdict !== "failed" && verdict !== "inconclusive")) return judged;
  return { ...judged, reason: await withDenials(ports, build, { reason, since: run.createdAt }) };
}

async function judgeOwnChecks(ports: Ports, loaded: LoadedGate, state: JobState | null) {
  const work = await gateWork(ports, loaded);
  if (work.kind === "verdict") return judgeIdle(ports, loaded, work);
  if (work.kind === "checks") return judgeCritic(ports, loaded, state);
  if (state === null) throw new Error(`gate run ${loaded.run.id} has no job state`);
  return judgeCommands(ports, loaded, work, state);
}

/** A gate that passed in an earlier wave cannot become absent (W6). */
async function judgeIdle(
  ports: Ports,
  { run, build }: LoadedGate,
  work: Extract<GateWork, { kind: "verdict" }>,
): Promise<Judged> {
  const before = await ports.store.gateRuns.find({ buildId: build.id, gate: run.gate, verdict: "passed" });
  const evidence = noEvidence(run.sha, [work.note]);
  if (work.verdict !== "absent" || before === null)
    return { verdict: work.verdict, reason: work.note, fixable: false, evidence, findings: [] };
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
