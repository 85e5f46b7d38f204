import type { Evidence } from "../../domain/finding.ts";
import type { SortedReview } from "../../gates/port.ts";
import { gateMask } from "../job/job-results.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { abandonGate, type LoadedGate, raiseGate } from "./gate-run.ts";
import { maskFinding, noEvidence } from "./gate-verdict.ts";

/** Asks for the run again, to have its agent asked or what that one added run. */
export async function continueGate(ports: Ports, loaded: LoadedGate, evidence: Evidence): Promise<void> {
  const name = evidence.added?.phase === "asking" ? "ask-gate-agent" : "run-added-checks";
  await askForMore(ports, name, loaded, evidence);
}

/**
 * Asks for the run again, to have what would block looked at by a fresh session. The first look's
 * findings stay with the run, so that whatever is lost from here on costs only the second.
 */
export async function askSecondLook(ports: Ports, { run, build }: LoadedGate, found: SortedReview): Promise<void> {
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
