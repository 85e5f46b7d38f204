import { getKnown } from "../../domain/known.ts";
import type { Spending } from "../../domain/models.ts";
import type { SandboxWall } from "../../domain/sandbox/sandbox.ts";
import { presentStates } from "../../sandbox-lifecycle/sandbox-events.ts";
import type {
  AttemptRow,
  BuildRow,
  CommentRow,
  FindingRow,
  GateRunRow,
  MessageRow,
  OutboxRow,
  PreviewRow,
  PullRequestRow,
  QuestionRow,
  Store,
  TaskRow,
  WaveRow,
} from "../../store/port.ts";
import { liveAttemptsOf } from "../../store/queries/attempts.ts";
import { activeBuildOf } from "../../store/queries/builds.ts";
import { memberIdsOf } from "../../store/queries/waves.ts";

// Reads a build with its tasks, waves, attempts and gates, for people and programs.

type Fields<Row, Names extends keyof Row> = { readonly [Name in Names]: Row[Name] };

export type AttemptView = Fields<
  AttemptRow,
  | "id"
  | "kind"
  | "role"
  | "number"
  | "status"
  | "outcome"
  | "reason"
  | "outputTail"
  | "ref"
  | "commitSha"
  | "jobKey"
  | "createdAt"
  | "startedAt"
  | "endedAt"
> & {
  /** Its agent's last action, in one line; null if it is unknown or the attempt has ended. */
  readonly lastAction: string | null;
  /** Null for a fix or a generate attempt. */
  readonly taskKey: string | null;
  /** Its tree is being set up, or waits for the setup cache to be filled. */
  readonly inSetup: boolean;
  /** The files it changed, once it is judged. */
  readonly changed: readonly string[];
};

export type FindingView = Fields<FindingRow, "rule" | "severity" | "message" | "file" | "line">;

export type GateView = Fields<
  GateRunRow,
  "id" | "gate" | "round" | "sha" | "status" | "verdict" | "reason" | "evidence" | "jobKey" | "createdAt" | "endedAt"
> & { readonly findings: readonly FindingView[] };

export type TaskView = Fields<
  TaskRow,
  "key" | "agent" | "definition" | "status" | "attempts" | "retriesUsed" | "conflicts" | "reason" | "endedAt"
> & {
  /** Its current or last wave. */
  readonly waveNumber: number | null;
};

export type WaveView = Fields<
  WaveRow,
  | "id"
  | "number"
  | "status"
  | "baseSha"
  | "headSha"
  | "rejectedSha"
  | "fixRounds"
  | "epoch"
  | "reason"
  | "createdAt"
  | "endedAt"
> & {
  /** Its tasks, in plan order. A task that a conflict sent back is also in a later wave. */
  readonly taskKeys: readonly string[];
  /** Oldest first. */
  readonly attempts: readonly AttemptView[];
  readonly gates: readonly GateView[];
};

export type QuestionView = Fields<
  QuestionRow,
  | "id"
  | "attemptId"
  | "role"
  | "text"
  | "reason"
  | "options"
  | "askedAt"
  | "deadlineAt"
  | "answer"
  | "answeredBy"
  | "answeredAt"
  | "closedAt"
>;

export type MessageView = Fields<
  MessageRow,
  "id" | "text" | "by" | "urgent" | "createdAt" | "attemptId" | "deliveredAt"
> & { readonly taskKey: string };

export type CommentView = CommentRow & { readonly taskKey: string | null };

export type PreviewView = Fields<PreviewRow, "waveNumber" | "status" | "port" | "reason"> & {
  /** The origin at which `serve` shows it; null until it first does. */
  readonly servedAt: string | null;
};

export type PullRequestView = Fields<
  PullRequestRow,
  | "key"
  | "forge"
  | "repo"
  | "branch"
  | "base"
  | "waveNumber"
  | "sha"
  | "number"
  | "url"
  | "status"
  | "mergeState"
  | "checks"
  | "commits"
  | "mergeSha"
  | "problem"
  | "remedy"
  | "tries"
  | "nextAt"
>;

export interface BuildView {
  readonly build: BuildRow;
  readonly project: string;
  readonly tasks: readonly TaskView[];
  readonly waves: readonly WaveView[];
  readonly preview: PreviewView | null;
  /** Its pull requests, oldest wave first; absent if it delivers to no forge. */
  readonly pullRequests?: readonly PullRequestView[];
  /** Agents' questions, oldest first. */
  readonly questions: readonly QuestionView[];
  /** People's messages to its agents, oldest first. */
  readonly messages: readonly MessageView[];
  /** People's comments on its work, oldest first. */
  readonly comments: readonly CommentView[];
  /** Why its sandbox has to wait before it can start; null if it does not wait. */
  readonly waitsForSandbox: string | null;
  /** A problem of its running sandbox, such as a volume above its limit; null if there is none. */
  readonly sandboxTrouble: string | null;
  /** How its sandbox's jobs are isolated from each other; null before the sandbox first ran. */
  readonly sandboxWall: SandboxWall | null;
  /** Model spending by attempt or gate run; an id without spending is absent. */
  readonly spending: ReadonlyMap<string, Spending>;
}

export interface BuildReader {
  /** Reads the build's current state, but not the parts that cannot have changed since. */
  read(): Promise<BuildView>;
}

const endedWaves: ReadonlySet<string> = new Set(["passed", "blocked", "failed", "cancelled"]);

interface KnownWave {
  /** Identifies an ended wave's state; if it is unchanged, the wave is not read again. */
  readonly stamp: string | null;
  readonly view: WaveView;
}

/** Creates a reader that reads one build repeatedly and cheaply. Fails with `not-found`. */
export function createBuildReader(store: Store, buildId: string): BuildReader {
  const tasks = new Map<string, TaskRow>();
  const waves = new Map<string, KnownWave>();
  let project: string | null = null;
  let shape = "";
  const spending = createSpendingReader(store, buildId);
  return {
    async read() {
      const build = await store.builds.get({ id: buildId });
      project ??= (await store.projects.get({ id: build.projectId })).name;
      const rows = await store.waves.list({ buildId }, { by: "number" });
      const now = [build.status, build.epoch, ...rows.map((wave) => `${wave.status}${wave.epoch}`)].join();
      if (now !== shape) remember(tasks, await store.tasks.list({ buildId }));
      shape = now;
      for (const row of rows) {
        const stamp = endedWaves.has(row.status) ? `${row.status}:${row.epoch}` : null;
        if (stamp !== null && waves.get(row.id)?.stamp === stamp) continue;
        waves.set(row.id, { stamp, view: await readWave(store, row, tasks, build.plan) });
      }
      const ordered = [...tasks.values()].sort((left, right) => left.position - right.position);
      return {
        build,
        project,
        waves: rows.map((row) => getKnown(waves, row.id).view),
        tasks: ordered.map((task) => taskView(task, rows)),
        ...(build.plan.deliver.repo === null
          ? {}
          : { pullRequests: await store.pullRequests.list({ buildId }, { by: "waveNumber" }) }),
        preview: build.plan.preview === null ? null : await readPreview(store, build),
        questions: await store.questions.list({ buildId }, { by: "id" }),
        messages: await readMessages(store, buildId, tasks),
        comments: (await store.comments.list({ buildId }, { by: "id" })).map((row) => ({
          ...row,
          taskKey: row.taskId === null ? null : (tasks.get(row.taskId)?.key ?? null),
        })),
        ...(await sandboxOf(store, build)),
        spending: await spending.read(),
      };
    },
  };
}

async function readMessages(
  store: Store,
  buildId: string,
  tasks: ReadonlyMap<string, TaskRow>,
): Promise<MessageView[]> {
  const rows = await store.messages.list({ buildId }, { by: "id" });
  return rows.flatMap((row) => {
    const task = tasks.get(row.taskId);
    return task === undefined ? [] : [{ ...row, taskKey: task.key }];
  });
}

async function readPreview(store: Store, { id: buildId, projectId }: BuildRow): Promise<PreviewView | null> {
  const row = await store.previews.find({ buildId });
  if (row === null) return null;
  const { previewPort, previewOrigin } = await store.projects.get({ id: projectId });
  return { ...row, servedAt: previewOrigin ?? (previewPort === null ? null : `http://127.0.0.1:${previewPort}`) };
}

/** Creates a reader of spending, which sums the calls only if one started or ended since. */
function createSpendingReader(store: Store, buildId: string): { read(): Promise<ReadonlyMap<string, Spending>> } {
  let known: { readonly sign: string; readonly spending: ReadonlyMap<string, Spending> } | null = null;
  return {
    async read() {
      const row = await store.buildSpending.find({ buildId });
      if (row === null) return new Map();
      const sign = JSON.stringify(row);
      if (known?.sign !== sign) known = { sign, spending: await store.modelSpending(buildId) };
      return known.spending;
    },
  };
}

/** Returns why these builds' sandboxes wait to start, by build id. */
export async function sandboxWaits(store: Store, builds: readonly BuildRow[]): Promise<ReadonlyMap<string, string>> {
  const running = builds.filter(({ status }) => status === "running");
  const projectId = running.map((build) => build.projectId);
  const rows = await store.sandboxes.pick({ projectId, state: "wanted" }, ["projectId", "reason"]);
  const reasons = new Map(rows.flatMap((row) => (row.reason === null ? [] : [[row.projectId, row.reason]])));
  return new Map(
    running.flatMap(({ id, projectId: of }) => {
      const reason = reasons.get(of);
      return reason === undefined ? [] : [[id, reason]];
    }),
  );
}

async function sandboxOf(
  store: Store,
  { projectId, status, sandboxDriver: driver }: BuildRow,
): Promise<Pick<BuildView, "waitsForSandbox" | "sandboxTrouble" | "sandboxWall">> {
  const row = await store.sandboxes.find({ projectId, driver, state: presentStates });
  const reason = status === "running" ? (row?.reason ?? null) : null;
  return {
    waitsForSandbox: row?.state === "wanted" ? reason : null,
    sandboxTrouble: row?.state === "running" ? reason : null,
    sandboxWall: row?.wall ?? null,
  };
}

function remember(tasks: Map<string, TaskRow>, rows: readonly TaskRow[]): void {
  for (const row of rows) tasks.set(row.id, row);
}

function taskView(task: TaskRow, waves: readonly WaveRow[]): TaskView {
  return { ...task, waveNumber: waves.find((wave) => wave.id === task.waveId)?.number ?? null };
}

/** Returns what the agents of live attempts did last, by job. */
async function lastActions(store: Store, attempts: readonly AttemptRow[]): Promise<ReadonlyMap<string, string | null>> {
  const key = attempts.flatMap(({ status, jobKey }) => (status === "running" ? [jobKey] : []));
  if (key.length === 0) return new Map();
  const jobs = await store.jobs.pick({ key }, ["key", "lastAction"]);
  return new Map(jobs.map(({ key: jobKey, lastAction }) => [jobKey, lastAction]));
}

async function readWave(
  store: Store,
  row: WaveRow,
  tasks: Map<string, TaskRow>,
  plan: BuildRow["plan"],
): Promise<WaveView> {
  const ids = await memberIdsOf(store, row.id);
  // Read attempts first, because a task that is read after its attempt settled shows the result.
  const attempts = await store.attempts.list({ waveId: row.id }, { by: "createdAt" });
  remember(tasks, await store.tasks.list({ id: ids }));
  const members = ids.map((id) => getKnown(tasks, id)).sort((left, right) => left.position - right.position);
  const actions = await lastActions(store, attempts);
  const inSetup = plan.setup === null ? new Set() : await jobsInSetup(store, attempts);
  return {
    ...row,
    taskKeys: members.map((task) => task.key),
    attempts: attempts.map((attempt) => ({
      ...attempt,
      taskKey: attempt.taskId === null ? null : (tasks.get(attempt.taskId)?.key ?? null),
      inSetup: inSetup.has(attempt.jobKey),
      lastAction: actions.get(attempt.jobKey) ?? null,
      changed: attempt.verdict?.changed ?? [],
    })),
    gates: await readGates(store, row.id),
  };
}

/**
 * The jobs that have not come beyond setup: their watcher stores no state before (`watch-jobs.ts`).
 */
async function jobsInSetup(store: Store, attempts: readonly AttemptRow[]): Promise<Set<string>> {
  const keys = attempts.filter(({ status }) => status === "running").map(({ jobKey }) => jobKey);
  if (keys.length === 0) return new Set();
  const jobs = await store.jobs.list({ key: keys, status: "running" });
  return new Set(jobs.filter(({ state }) => state === null).map(({ key }) => key));
}

async function readGates(store: Store, waveId: string): Promise<GateView[]> {
  const runs = await store.gateRuns.list({ waveId }, { by: "createdAt" });
  const judged = runs.filter((run) => run.status === "finished").map((run) => run.id);
  const findings = judged.length === 0 ? [] : await store.findings.list({ gateRunId: judged }, { by: "id" });
  return runs.map((run) => ({ ...run, findings: findings.filter((finding) => finding.gateRunId === run.id) }));
}

/** Returns a text that changes whenever one of a build's live attempts does. */
export async function liveAttempts(store: Store, buildId: string): Promise<string> {
  const live = await liveAttemptsOf(store, buildId);
  return live.map((attempt) => `${attempt.id}${attempt.status}${attempt.fence}`).join();
}

/** Walks the events of a build in the order of their commits. */
export interface EventCursor {
  /** Returns the events since the last call. */
  next(): Promise<OutboxRow[]>;
}

const windowSize = 32;

/** Creates a cursor that starts at the build's first event, or now. */
export async function createEventCursor(store: Store, buildId: string, from: "first" | "now"): Promise<EventCursor> {
  const seen = new Set<number>();
  const next = async (): Promise<OutboxRow[]> => {
    // An event may be committed after one with a higher number, so always reread the last few.
    for (let limit = windowSize; ; limit *= 4) {
      const latest = await store.outbox.list({ buildId }, { by: "seq", descending: true, limit });
      const fresh = latest.filter((row) => !seen.has(row.seq));
      if (fresh.length === latest.length && latest.length === limit) continue;
      for (const row of fresh) seen.add(row.seq);
      return fresh.reverse();
    }
  };
  if (from === "now") await next();
  return { next };
}

/** Returns the build of the same project that must end before this one may run, or null. */
export async function buildAhead(store: Store, build: Pick<BuildRow, "id" | "projectId">): Promise<BuildRow | null> {
  const { projectId } = build;
  const running = await activeBuildOf(store, projectId);
  return running === null || running.id === build.id ? null : running;
}
