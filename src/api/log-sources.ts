import type { AttemptRow, GateRunRow, Store } from "../store/port.ts";

/** A job of a build, and the label of its output. */
export interface LogSource {
  readonly jobKey: string;
  /** Such as `api`, `api.2` (its second attempt), `wave-1 testing`, `preview`. */
  readonly label: string;
  readonly taskKey: string | null;
}

/** Returns every job of a build so far, oldest first. */
export async function logSources(store: Store, buildId: string): Promise<LogSource[]> {
  const jobs = await store.jobs.list({ buildId }, { by: "createdAt" });
  const waves = new Map((await store.waves.list({ buildId })).map((wave) => [wave.id, wave.number]));
  const tasks = new Map((await store.tasks.list({ buildId })).map((task) => [task.id, task.key]));
  const attempts = new Map<string, AttemptRow>(
    (await store.attempts.list({ buildId })).map((attempt) => [attempt.id, attempt]),
  );
  const gates = new Map<string, GateRunRow>((await store.gateRuns.list({ buildId })).map((run) => [run.id, run]));
  return jobs.map(({ key: jobKey, ownerKind, ownerId }) => {
    const attempt = attempts.get(ownerId);
    const gate = gates.get(ownerId);
    if (ownerKind === "attempt" && attempt !== undefined) {
      const taskKey = attempt.taskId === null ? null : (tasks.get(attempt.taskId) ?? null);
      const name = taskKey ?? `wave-${waves.get(attempt.waveId)} ${attempt.kind}`;
      return { jobKey, taskKey, label: attempt.number > 1 ? `${name}.${attempt.number}` : name };
    }
    if (ownerKind === "gate" && gate !== undefined) {
      const name = `wave-${waves.get(gate.waveId)} ${gate.gate}`;
      return { jobKey, taskKey: null, label: gate.round > 1 ? `${name}.${gate.round}` : name };
    }
    return { jobKey, taskKey: null, label: ownerKind };
  });
}
