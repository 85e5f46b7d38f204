import type { AttemptRow, BuildRow, FindingRow, GateRunRow, Store } from "../../store/port.ts";
import type { AttemptView, GateView } from "./build-view.ts";
import { grouped, type WaveDetail } from "./read-waves.ts";

const attemptColumns = [
  ...(["id", "waveId", "taskId", "kind", "role", "number", "status", "outcome", "reason", "ref", "commitSha"] as const),
  ...(["jobKey", "verdict", "createdAt", "startedAt", "endedAt"] as const),
];
const gateColumns = [
  ...(["id", "waveId", "gate", "round", "sha", "status", "verdict", "reason", "evidence", "jobKey"] as const),
  ...(["createdAt", "endedAt"] as const),
];

type Attempt = Pick<AttemptRow, (typeof attemptColumns)[number]>;
type ReadAttempt = Attempt & Pick<AttemptRow, "outputTail">;
type GateRun = Pick<GateRunRow, (typeof gateColumns)[number]>;

/** All that people and programs see of attempts and gate runs. */
export const wholeWaves: WaveDetail<ReadAttempt, AttemptView, GateView> = { readAttempts, attemptShower, readGates };

/** Reads attempts, with the end of the output of those that did not succeed. */
async function readAttempts(store: Store, where: { buildId: string; waveId: string[] }): Promise<ReadAttempt[]> {
  const rows: Attempt[] = await store.attempts.pick(where, attemptColumns, { by: "createdAt" });
  const id = rows.filter(({ outcome }) => outcome !== null && outcome !== "succeeded").map((row) => row.id);
  const tails = id.length === 0 ? [] : await store.attempts.pick({ id }, ["id", "outputTail"]);
  const tailOf = new Map(tails.map((row) => [row.id, row.outputTail]));
  return rows.map((row) => Object.assign(row, { outputTail: tailOf.get(row.id) ?? null }));
}

/** Reads what the jobs of running attempts do, and returns what shows an attempt. */
async function attemptShower(store: Store, { plan }: BuildRow, attempts: readonly Attempt[]) {
  const actions = await lastActions(store, attempts);
  const inSetup = plan.setup === null ? new Set() : await jobsInSetup(store, attempts);
  return (attempt: ReadAttempt, taskKey: string | null): AttemptView => ({
    id: attempt.id,
    kind: attempt.kind,
    role: attempt.role,
    number: attempt.number,
    status: attempt.status,
    outcome: attempt.outcome,
    reason: attempt.reason,
    outputTail: attempt.outputTail,
    ref: attempt.ref,
    commitSha: attempt.commitSha,
    jobKey: attempt.jobKey,
    createdAt: attempt.createdAt,
    startedAt: attempt.startedAt,
    endedAt: attempt.endedAt,
    taskKey,
    inSetup: inSetup.has(attempt.jobKey),
    lastAction: actions.get(attempt.jobKey) ?? null,
    changed: attempt.verdict?.changed ?? [],
  });
}

/** Returns what the agents of live attempts did last, by job. */
async function lastActions(store: Store, attempts: readonly Attempt[]): Promise<ReadonlyMap<string, string | null>> {
  const key = runningJobs(attempts);
  if (key.length === 0) return new Map();
  const jobs = await store.jobs.pick({ key }, ["key", "lastAction"]);
  return new Map(jobs.map(({ key: jobKey, lastAction }) => [jobKey, lastAction]));
}

/**
 * The jobs that have not come beyond setup: their watcher stores no state before (`watch-jobs.ts`).
 */
async function jobsInSetup(store: Store, attempts: readonly Attempt[]): Promise<Set<string>> {
  const key = runningJobs(attempts);
  if (key.length === 0) return new Set();
  const jobs = await store.jobs.pick({ key, status: "running" }, ["key", "state"]);
  return new Set(jobs.filter(({ state }) => state === null).map((job) => job.key));
}

const runningJobs = (attempts: readonly Attempt[]): string[] =>
  attempts.flatMap(({ status, jobKey }) => (status === "running" ? [jobKey] : []));

async function readGates(store: Store, waveId: readonly string[]): Promise<ReadonlyMap<string, GateView[]>> {
  if (waveId.length === 0) return new Map();
  const runs: GateRun[] = await store.gateRuns.pick({ waveId }, gateColumns, { by: "createdAt" });
  const judged = runs.filter((run) => run.status === "finished").map((run) => run.id);
  const rows: FindingRow[] = judged.length === 0 ? [] : await store.findings.list({ gateRunId: judged }, { by: "id" });
  const findings = grouped(rows, ({ gateRunId }) => gateRunId);
  return grouped(
    runs.map((run) => ({ ...run, findings: findings.get(run.id) ?? [] })),
    (run) => run.waveId,
  );
}
