import type { Evidence } from "../../domain/gate/finding.ts";
import { maxLosses } from "../../domain/losses.ts";
import { liveGateRunStatuses } from "../../domain/status.ts";
import type { BuildRow, GateRunRow, StoreTransaction } from "../../store/port.ts";
import { maskOf } from "../job/job-results.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { withoutAdded } from "./agent/added-checks.ts";
import type { GateOutcome, Judged } from "./gate-outcome.ts";
import { abandonGate, type GateRunRef, raiseGate } from "./gate-run.ts";

/**
 * Settles a gate run with everything that follows from its outcome. A run that is finished, or has
 * another fence by now, stays unchanged.
 */
export async function settleGate(ports: Ports, gateRunRef: GateRunRef, outcome: GateOutcome): Promise<void> {
  const { buildId } = await ports.store.gateRuns.get({ id: gateRunRef.gateRunId });
  switch (outcome.kind) {
    case "verdict":
      return storeVerdict(ports, gateRunRef, buildId, outcome.judged);
    case "goes-on":
      return requestNextPart(ports, gateRunRef, buildId, outcome.evidence);
    case "lost":
      return repeatLost(ports, gateRunRef, buildId, outcome.reason);
  }
}

async function storeVerdict(ports: Ports, gateRunRef: GateRunRef, buildId: string, judged: Judged): Promise<void> {
  await ports.store.transaction("finish-gate", async (transaction) => {
    await transaction.lockBuild(buildId);
    const { findings, blocking: counting = findings, ...row } = judged;
    const blocking = judged.verdict === "failed" || judged.verdict === "inconclusive";
    const [finished] = await transaction.gateRuns.update(
      { id: gateRunRef.gateRunId, fence: gateRunRef.fence, status: liveGateRunStatuses },
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
        gateRunId: gateRunRef.gateRunId,
        confidence: confidence === null ? null : Math.round(confidence * 100),
      })),
    );
    await advance(transaction, ports, buildId);
  });
}

/**
 * Requests the run's next part, which continues from this evidence. A loss repeats only that part.
 */
async function requestNextPart(
  ports: Ports,
  gateRunRef: GateRunRef,
  buildId: string,
  evidence: Evidence,
): Promise<void> {
  await ports.store.transaction(nameOfPart(evidence), async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const run = await transaction.gateRuns.get({ id: gateRunRef.gateRunId });
    if (isOver(run, gateRunRef)) return;
    if (build.status !== "running") {
      await abandonGate(transaction, ports, run.id);
      await advance(transaction, ports, buildId);
      return;
    }
    await raiseGate(transaction, run, { evidence });
  });
}

function nameOfPart({ added }: Evidence): "ask-second-look" | "ask-gate-agent" | "run-added-checks" {
  if (added === undefined) return "ask-second-look";
  return added.phase === "asking" ? "ask-gate-agent" : "run-added-checks";
}

const isOver = (run: GateRunRow, { fence }: GateRunRef): boolean => run.fence !== fence || run.status === "finished";

/** Repeats a run lost to infrastructure, at most three times (W4, W6). */
async function repeatLost(ports: Ports, gateRunRef: GateRunRef, buildId: string, why: string | null): Promise<void> {
  const mask = await maskOf(ports, await ports.store.builds.get({ id: buildId }), null);
  await ports.store.transaction("repeat-gate", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const run = await transaction.gateRuns.get({ id: gateRunRef.gateRunId });
    if (isOver(run, gateRunRef)) return;
    if (run.losses < maxLosses && build.status === "running") {
      await raiseGate(transaction, run, { losses: run.losses + 1 });
      return;
    }
    await giveUp(transaction, ports, { run, build, why: why === null ? null : mask(why) });
    await advance(transaction, ports, buildId);
  });
}

async function giveUp(
  transaction: StoreTransaction,
  ports: Ports,
  { run, build, why }: { run: GateRunRow; build: BuildRow; why: string | null },
): Promise<void> {
  const times = `${run.losses + 1} times`;
  const reason = why === null ? `its sandbox died ${times} while it ran` : `it was tried ${times}; last: ${why}`;
  // If our own checks passed and only the added part was lost, their result stands.
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
}
