import type { StoreTransaction } from "../../store/port.ts";
import { maskOf } from "../job/job-results.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { withoutAdded } from "./added-checks.ts";
import { type GateRefer, raiseGate } from "./gate-run.ts";

const maxLosses = 3;

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
