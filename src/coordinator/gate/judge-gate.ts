import type { SortedReview } from "../../gates/port.ts";
import type { JobState } from "../../sandbox/port.ts";
import { withDenials } from "../job/denials.ts";
import { gateMask } from "../job/job-results.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { afterAdded, afterOwnChecks, type NextOfRun } from "./added-checks.ts";
import { addedPhase } from "./gate-agent.ts";
import type { LoadedGate } from "./gate-run.ts";
import { type Judged, maskJudged, noEvidence } from "./gate-verdict.ts";
import { type GateWork, gateWork } from "./gate-work.ts";
import { judgeCommands } from "./judge-commands.ts";
import { judgeCritic } from "./judge-critic.ts";

/** What the run's job, now that it has ended, comes to. */
export async function judgeGateRun(
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

/** A program that could not reach a host seldom says which. */
async function explained(ports: Ports, { run, build }: LoadedGate, judged: Judged): Promise<Judged> {
  const { verdict, reason, evidence } = judged;
  if (reason === null || evidence === null || (verdict !== "failed" && verdict !== "inconclusive")) return judged;
  return { ...judged, reason: await withDenials(ports, build, { reason, since: run.createdAt }) };
}

async function judgeGate(
  ports: Ports,
  loaded: LoadedGate,
  state: JobState | null,
): Promise<Judged | { readonly askAgain: SortedReview }> {
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
