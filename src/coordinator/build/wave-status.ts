import type { AttemptRow, GateRunRow, Store } from "../../store/port.ts";
import type { FindingView, StatusAttempt, StatusGate } from "./build-view.ts";
import { grouped, type WaveDetail } from "./read-waves.ts";

const attemptColumns = ["id", "waveId", "taskId", "kind", "number", "status", "outcome"] as const;
const gateColumns = ["id", "waveId", "gate", "status", "verdict"] as const;

type Attempt = Pick<AttemptRow, (typeof attemptColumns)[number]>;
type GateRun = Pick<GateRunRow, (typeof gateColumns)[number]>;

/**
 * What the status of a build shows of attempts and gate runs. The rest of their rows (evidence,
 * verdicts, times) is most of what reading a build of hundreds of tasks costs.
 */
export const statusOfWaves: WaveDetail<Attempt, StatusAttempt, StatusGate> = {
  readAttempts: (store, where) => store.attempts.pick(where, attemptColumns, { by: "createdAt" }),
  attemptShower: async () => showAttempt,
  readGates,
};

const showAttempt = ({ id, kind, number, status, outcome }: Attempt, taskKey: string | null): StatusAttempt => ({
  id,
  kind,
  number,
  status,
  outcome,
  taskKey,
});

/** Reads gate runs, with the findings of those that did not pass. */
async function readGates(store: Store, waveId: readonly string[]): Promise<ReadonlyMap<string, StatusGate[]>> {
  if (waveId.length === 0) return new Map();
  const [runs, added] = await Promise.all([
    store.gateRuns.pick({ waveId }, gateColumns, { by: "createdAt" }) as Promise<GateRun[]>,
    store.addedChecks(waveId),
  ]);
  const blocking = runs.filter(({ status, verdict }) => status === "finished" && verdict !== "passed");
  const gateRunId = blocking.map(({ id }) => id);
  const rows: readonly (FindingView & { gateRunId: string })[] =
    gateRunId.length === 0 ? [] : await store.findings.list({ gateRunId }, { by: "id" });
  const findings = grouped(rows, (row) => row.gateRunId);
  const shown = runs.map(({ id, waveId: of, gate, status, verdict }) => {
    const checks = added.get(id);
    const evidence = checks === undefined ? null : { added: checks };
    return { id, waveId: of, gate, status, verdict, evidence, findings: findings.get(id) ?? [] };
  });
  return grouped(shown, (run) => run.waveId);
}
