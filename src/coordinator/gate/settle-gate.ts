import { liveGateRunStatuses } from "../../domain/status.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import type { GateRefer } from "./gate-run.ts";
import type { Judged } from "./gate-verdict.ts";

export async function settleGate(ports: Ports, refer: GateRefer, judged: Judged): Promise<void> {
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
