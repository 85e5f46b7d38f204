import { jobStateOf, overBudget } from "../job/job-results.ts";
import { isOfEarlierBoot } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { askSecondLook, continueGate } from "./continue-gate.ts";
import { addedPhase } from "./gate-agent.ts";
import { type GateRefer, loadGate } from "./gate-run.ts";
import { cancelled, outOfTime } from "./gate-verdict.ts";
import { judgeGateRun } from "./judge-gate.ts";
import { loseGate } from "./lose-gate.ts";
import { settleGate } from "./settle-gate.ts";

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
    await settleGate(
      ports,
      refer,
      run.evidence?.added === undefined ? cancelled : { ...cancelled, evidence: run.evidence },
    );
    return;
  }
  const isOutOfTime = state?.status === "cancelled" && state.cancelReason === overBudget;
  if (isOutOfTime && addedPhase(run) === null) {
    await settleGate(ports, refer, outOfTime);
    return;
  }
  const isLost =
    state?.status === "lost" || state?.status === "cancelled" || (state !== null && isOfEarlierBoot(ports, state));
  if (isLost && !isOutOfTime) {
    await loseGate(ports, refer, state?.status === "lost" ? state.cancelReason : null);
    return;
  }
  const next = await judgeGateRun(ports, loaded, state);
  if ("askAgain" in next) await askSecondLook(ports, loaded, next.askAgain);
  else if ("goOn" in next) await continueGate(ports, loaded, next.goOn);
  else await settleGate(ports, refer, next);
}
