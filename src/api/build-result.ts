import type { StatusView, StatusWave, WaveView } from "../coordinator/build/build-view.ts";
import type { BuildMetadata } from "../domain/events/events.ts";
import type { AddedChecks } from "../domain/gate/added-checks.ts";
import type { Spending } from "../domain/models.ts";
import { type PullRequestJson, pullRequestsField } from "./pull-requests.ts";
import { type Spent, spentByBuild, spentByTask, spentInWave, spentJson } from "./spending.ts";
import { attemptsAt, getTask } from "./view-index.ts";

/** The last line of `build --json` and `resume --json`. */
export interface BuildFinished {
  readonly type: "build.finished";
  readonly buildId: string;
  readonly status: string;
  readonly waves: readonly WaveResult[];
  readonly repository: string;
  readonly head: string | null;
  readonly durationMs: number;
  /** The request's own data, if it had any. */
  readonly metadata?: BuildMetadata;
  /** The file of the plan that waits for approval, if there is one. */
  readonly planFile?: string;
  /** The branch of the person's repository that has the result, if there is one. */
  readonly delivery?: { readonly root: string; readonly branch: string; readonly commit: string };
  /** Its pull requests at a forge, if it has any. */
  readonly pullRequests?: readonly PullRequestJson[];
  /** The cost of all models; like the fields below, absent if none was called. */
  readonly spent?: Spent;
}

export interface WaveResult {
  readonly number: number;
  readonly status: string;
  readonly tasks: readonly { id: string; agent: string; status: string; attempts: number; spent?: Spent }[];
  readonly gates: readonly { name: string; verdict: string; rounds: number; added?: AddedResult }[];
  readonly commit: string | null;
  readonly spent?: Spent;
}

/** The checks that a gate's agent added to its last run. */
interface AddedResult {
  readonly agent: string;
  /** Why it added nothing; otherwise null. */
  readonly lack: string | null;
  readonly checks: readonly {
    name: string;
    command: string;
    why: string;
    /** `passed`, `failed` or `not-run`; null if it has not run yet. */
    outcome: string | null;
    exitCode: number | null;
    /** Why it could not run. */
    note: string | null;
  }[];
}

export const buildFinished = (view: StatusView, repository: string, planFile: string | null = null): BuildFinished => ({
  type: "build.finished",
  buildId: view.build.id,
  status: view.build.status,
  waves: waveResults(view),
  repository,
  head: view.build.headSha,
  durationMs: elapsedMs(view, new Date()),
  ...metadataField(view),
  ...spentField(spentByBuild(view)),
  ...pullRequestsField(view),
  ...(planFile === null ? {} : { planFile }),
});

export const metadataField = ({ build: { metadata } }: StatusView): { metadata?: BuildMetadata } =>
  metadata === null ? {} : { metadata };

const spentField = (spent: Spending): { spent?: Spent } => (spent.calls === 0 ? {} : { spent: spentJson(spent) });

/** From its start to its end, or to `now` while it runs. */
export function elapsedMs({ build }: StatusView, now: Date): number {
  const end = build.endedAt ?? now;
  return Math.max(0, end.getTime() - (build.startedAt ?? build.createdAt).getTime());
}

/** How long a wave took. For a reopened wave, only the time in which it was active counts. */
export function waveMs(wave: WaveView, now: Date): number {
  const until = (wave.endedAt ?? now).getTime();
  if (wave.epoch === 0) return until - wave.createdAt.getTime();
  const work = [...wave.attempts, ...wave.gates]
    .map(({ createdAt, endedAt }) => [createdAt.getTime(), Math.min(until, (endedAt ?? now).getTime())] as const)
    .sort(([left], [right]) => left - right);
  let total = 0;
  let countedUntil = 0;
  for (const [from, to] of work) {
    total += Math.max(0, to - Math.max(from, countedUntil));
    countedUntil = Math.max(countedUntil, to);
  }
  return total;
}

export const waveResults = (view: StatusView): WaveResult[] => view.waves.map((wave) => waveResult(view, wave));

function waveResult(view: StatusView, wave: StatusWave): WaveResult {
  return {
    number: wave.number,
    status: wave.status,
    tasks: wave.taskKeys.map((key) => {
      const task = getTask(view, key);
      // An attempt sent back by a conflict appears here; its end appears in its new wave.
      const status = task.waveNumber === wave.number ? task.status : "pending";
      const attempts = attemptsAt(view, key).filter((one) => one.wave === wave).length;
      return { id: key, agent: task.agent, status, attempts, ...spentField(spentByTask(view, key, wave)) };
    }),
    gates: latestGates(wave).map(({ gate, verdict, rounds, added }) => ({
      name: gate,
      verdict,
      rounds,
      ...(added === undefined ? {} : { added: addedResult(added) }),
    })),
    commit: wave.headSha,
    ...spentField(spentInWave(view, wave)),
  };
}

const addedResult = ({ role, lack, checks }: AddedChecks): AddedResult => ({
  agent: role,
  lack,
  checks: checks.map(({ name, command, why, result }) => {
    const { outcome = null, exitCode = null, note = null } = result ?? {};
    return { name, command, why, outcome, exitCode, note };
  }),
});

interface LatestGate {
  readonly gate: string;
  readonly verdict: string;
  readonly rounds: number;
  readonly added?: AddedChecks;
}

/** Each gate once, with its last verdict, the number of runs and what its agent added last. */
function latestGates(wave: StatusWave): LatestGate[] {
  const latest = new Map<string, LatestGate>();
  for (const run of wave.gates) {
    const rounds = (latest.get(run.gate)?.rounds ?? 0) + 1;
    const added = run.evidence?.added;
    const verdict = run.verdict ?? "inconclusive";
    latest.set(run.gate, { gate: run.gate, verdict, rounds, ...(added === undefined ? {} : { added }) });
  }
  return [...latest.values()];
}
