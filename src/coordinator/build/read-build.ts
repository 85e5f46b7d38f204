import type { Spending } from "../../domain/models.ts";
import { activeBuildStatuses, liveAttemptStatuses } from "../../domain/status.ts";
import type {
  AttemptRow,
  BuildRow,
  FindingRow,
  GateRunRow,
  OutboxRow,
  PreviewRow,
  QuestionRow,
  Store,
  TaskRow,
  WaveRow,
} from "../../store/port.ts";

// What people and programs look at: a build with its tasks, waves, attempts and gates. Read only.

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
  /** Null: a fix, or generated files made again. */
  readonly taskKey: string | null;
  /** Files it changed, once it was judged. */
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
  /** The wave it is in or was last in. */
  readonly waveNumber: number | null;
};

export type WaveView = Fields<
  WaveRow,
  "id" | "number" | "status" | "baseSha" | "headSha" | "fixRounds" | "epoch" | "reason" | "createdAt" | "endedAt"
> & {
  /** Its tasks, in plan order; one that a conflict sent back is in a later wave, too. */
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

export type PreviewView = Fields<PreviewRow, "waveNumber" | "status" | "port" | "reason"> & {
  /** Where `serve` shows it while it runs; null before it first did. */
  readonly servedPort: number | null;
};

export interface BuildView {
  readonly build: BuildRow;
  readonly project: string;
  readonly tasks: readonly TaskView[];
  readonly waves: readonly WaveView[];
  readonly preview: PreviewView | null;
  /** What agents asked a person, oldest first. */
  readonly questions: readonly QuestionView[];
  /** Why its sandbox waits to be started; null when it does not. */
  readonly waitsForSandbox: string | null;
  /**
   * What is wrong with its sandbox although it runs, such as a volume above its limit; null when
   * nothing is.
   */
  readonly sandboxTrouble: string | null;
  /**
   * What was spent on models, by the id of the attempt or gate run; of what is not there nothing.
   */
  readonly spending: ReadonlyMap<string, Spending>;
}

export interface BuildReader {
  /**
   * The build as the database has it now. What cannot have changed since the last call is not read
   * again.
   */
  read(): Promise<BuildView>;
}

const endedWaves: ReadonlySet<string> = new Set(["passed", "blocked", "failed", "cancelled"]);

interface KnownWave {
  /** What it would have to differ in to be read again, once it has ended. */
  readonly stamp: string | null;
  readonly view: WaveView;
}

/** Reads one build again and again, as cheaply as its size allows. Fails with `not-found`. */
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
        waves.set(row.id, { stamp, view: await readWave(store, row, tasks) });
      }
      const ordered = [...tasks.values()].sort((left, right) => left.position - right.position);
      return {
        build,
        project,
        waves: rows.map((row) => waves.get(row.id)!.view),
        tasks: ordered.map((task) => taskView(task, rows)),
        preview: build.plan.preview === null ? null : await readPreview(store, build),
        questions: await store.questions.list({ buildId }, { by: "id" }),
        ...(await sandboxOf(store, build)),
        spending: await spending.read(),
      };
    },
  };
}

async function readPreview(store: Store, { id: buildId, projectId }: BuildRow): Promise<PreviewView | null> {
  const row = await store.previews.find({ buildId });
  if (row === null) return null;
  return { ...row, servedPort: (await store.projects.get({ id: projectId })).previewPort };
}

/** Adds the calls up again only when one was made or has ended since. */
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

/** Why the sandboxes of these builds' projects wait to be started, by the build's id. */
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
  { projectId, status }: BuildRow,
): Promise<Pick<BuildView, "waitsForSandbox" | "sandboxTrouble">> {
  const row = status === "running" ? await store.sandboxes.find({ projectId, state: ["wanted", "running"] }) : null;
  const reason = row?.reason ?? null;
  return row?.state === "wanted"
    ? { waitsForSandbox: reason, sandboxTrouble: null }
    : { waitsForSandbox: null, sandboxTrouble: reason };
}

function remember(tasks: Map<string, TaskRow>, rows: readonly TaskRow[]): void {
  for (const row of rows) tasks.set(row.id, row);
}

function taskView(task: TaskRow, waves: readonly WaveRow[]): TaskView {
  return { ...task, waveNumber: waves.find((wave) => wave.id === task.waveId)?.number ?? null };
}

async function readWave(store: Store, row: WaveRow, tasks: Map<string, TaskRow>): Promise<WaveView> {
  const ids = (await store.waveTasks.list({ waveId: row.id })).map((member) => member.taskId);
  remember(tasks, await store.tasks.list({ id: ids }));
  const members = ids.map((id) => tasks.get(id)!).sort((left, right) => left.position - right.position);
  const attempts = await store.attempts.list({ waveId: row.id }, { by: "createdAt" });
  return {
    ...row,
    taskKeys: members.map((task) => task.key),
    attempts: attempts.map((attempt) => ({
      ...attempt,
      taskKey: attempt.taskId === null ? null : (tasks.get(attempt.taskId)?.key ?? null),
      changed: attempt.verdict?.changed ?? [],
    })),
    gates: await readGates(store, row.id),
  };
}

async function readGates(store: Store, waveId: string): Promise<GateView[]> {
  const runs = await store.gateRuns.list({ waveId }, { by: "createdAt" });
  const judged = runs.filter((run) => run.status === "finished").map((run) => run.id);
  const findings = judged.length === 0 ? [] : await store.findings.list({ gateRunId: judged }, { by: "id" });
  return runs.map((run) => ({ ...run, findings: findings.filter((finding) => finding.gateRunId === run.id) }));
}

/** The attempts of a build that are not over: a cheap sign of whether anything moved. */
export async function liveAttempts(store: Store, buildId: string): Promise<string> {
  const live = await store.attempts.list({ buildId, status: liveAttemptStatuses });
  return live.map((attempt) => `${attempt.id}${attempt.status}${attempt.fence}`).join();
}

/** Walks the events of a build in the order of their commits. */
export interface EventCursor {
  /** Those that came since the last call. */
  next(): Promise<OutboxRow[]>;
}

const windowSize = 32;

/** From its first event, or from now on. */
export async function createEventCursor(store: Store, buildId: string, from: "first" | "now"): Promise<EventCursor> {
  const seen = new Set<number>();
  const next = async (): Promise<OutboxRow[]> => {
    // An event may be committed after one with a higher number, so the last few are always looked
    // at again.
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

/**
 * The other build of the same project that has to end before this one may run; null when it is this
 * one's turn.
 */
export async function buildAhead(store: Store, build: Pick<BuildRow, "id" | "projectId">): Promise<BuildRow | null> {
  const { projectId } = build;
  const running = await store.builds.find({ projectId, status: activeBuildStatuses });
  return running === null || running.id === build.id ? null : running;
}
