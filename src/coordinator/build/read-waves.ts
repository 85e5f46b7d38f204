import { getKnown } from "../../domain/known.ts";
import type { AttemptRow, BuildRow, Store, TaskRow, WaveRow } from "../../store/port.ts";
import type { TaskView, WaveView } from "./build-view.ts";

// Reads the tasks and waves of a build. A build may have hundreds of both, so it takes the same few
// statements however many there are, and leaves out what nobody shows or what the plan in memory
// has. It names the fields that it copies, because a copy by `...` takes fifty times as long.

const taskColumns = [
  ...(["id", "key", "position", "agent", "status", "waveId", "attempts", "retriesUsed", "conflicts"] as const),
  ...(["reason", "endedAt"] as const),
];
/** What is read of the attempts and gate runs of waves. */
export interface WaveDetail<Row, Attempt, Gate> {
  /** Reads attempts, oldest first. */
  readAttempts(store: Store, where: { buildId: string; waveId: string[] }): Promise<Row[]>;
  /** Returns what shows one of these attempts, given its task's key. */
  attemptShower(
    store: Store,
    build: BuildRow,
    attempts: readonly Row[],
  ): Promise<(row: Row, taskKey: string | null) => Attempt>;
  /** Reads gate runs by wave, oldest first. */
  readGates(store: Store, waveId: readonly string[]): Promise<ReadonlyMap<string, Gate[]>>;
}

type ShownWave<Attempt, Gate> = Omit<WaveView, "attempts" | "gates"> & {
  readonly attempts: readonly Attempt[];
  readonly gates: readonly Gate[];
};

type TaskPart = Pick<TaskRow, (typeof taskColumns)[number]>;
type Task = TaskPart & Pick<TaskRow, "definition">;

const endedWaves: ReadonlySet<string> = new Set(["passed", "blocked", "failed", "cancelled"]);

interface KnownWave<View> {
  /** Identifies an ended wave's state; if it is unchanged, the wave is not read again. */
  readonly stamp: string | null;
  readonly view: View;
}

/** The tasks and waves of a build, and the keys of its tasks by id. */
interface Work<View> {
  readonly tasks: readonly TaskView[];
  readonly taskKeys: ReadonlyMap<string, string>;
  readonly waves: readonly View[];
}

/** Reads one build's work. */
export interface WaveReader<View> {
  read(build: BuildRow): Promise<Work<View>>;
}

/** Creates a reader of one build's work, which does not read ended waves again. */
export function createWaveReader<Row extends Pick<AttemptRow, "waveId" | "taskId">, Attempt, Gate>(
  store: Store,
  buildId: string,
  { readAttempts, attemptShower, readGates }: WaveDetail<Row, Attempt, Gate>,
): WaveReader<ShownWave<Attempt, Gate>> {
  const tasks = new Map<string, Task>();
  const known = new Map<string, KnownWave<ShownWave<Attempt, Gate>>>();
  let shape = "";
  return {
    async read(build) {
      const rows = await store.waves.list({ buildId }, { by: "number" });
      const stale = rows.filter((row) => stampOf(row) === null || known.get(row.id)?.stamp !== stampOf(row));
      const waveId = stale.map(({ id }) => id);
      const now = [build.status, build.epoch, ...rows.map((wave) => `${wave.status}${wave.epoch}`)].join();
      const readMembers = async () => {
        const members = waveId.length === 0 ? [] : await store.waveTasks.list({ waveId });
        // Read attempts first, because a task that is read after its attempt settled shows the result.
        const attempts = waveId.length === 0 ? [] : await readAttempts(store, { buildId, waveId });
        const some = now === shape ? { id: members.map(({ taskId }) => taskId) } : { buildId };
        for (const task of await readTasks(store, build, some)) tasks.set(task.id, task);
        return { members, attempts };
      };
      const [{ members, attempts }, gates] = await Promise.all([readMembers(), readGates(store, waveId)]);
      shape = now;
      const show = await attemptShower(store, build, attempts);
      const keyOf = ({ taskId }: Row) => (taskId === null ? null : (tasks.get(taskId)?.key ?? null));
      const membersOf = grouped(members, (member) => member.waveId);
      const attemptsOf = grouped(attempts, (attempt) => attempt.waveId);
      for (const row of stale) {
        const own = (membersOf.get(row.id) ?? []).map(({ taskId }) => getKnown(tasks, taskId)).sort(byPosition);
        const shown = (attemptsOf.get(row.id) ?? []).map((attempt) => show(attempt, keyOf(attempt)));
        const parts = { attempts: shown, gates: gates.get(row.id) ?? [] };
        known.set(row.id, { stamp: stampOf(row), view: { ...row, taskKeys: own.map(({ key }) => key), ...parts } });
      }
      const numbers = new Map<string | null, number>(rows.map(({ id, number }) => [id, number]));
      const ordered = [...tasks.values()].sort(byPosition);
      return {
        tasks: ordered.map((task) => taskView(task, numbers.get(task.waveId) ?? null)),
        taskKeys: new Map(ordered.map(({ id, key }) => [id, key])),
        waves: rows.map(({ id }) => getKnown(known, id).view),
      };
    },
  };
}

const stampOf = ({ status, epoch }: WaveRow): string | null => (endedWaves.has(status) ? `${status}:${epoch}` : null);

const byPosition = (left: TaskPart, right: TaskPart): number => left.position - right.position;

const taskView = (task: Task, waveNumber: number | null): TaskView => ({
  key: task.key,
  agent: task.agent,
  definition: task.definition,
  status: task.status,
  attempts: task.attempts,
  retriesUsed: task.retriesUsed,
  conflicts: task.conflicts,
  reason: task.reason,
  endedAt: task.endedAt,
  waveNumber,
});

/** Reads tasks. Their definitions are the plan's, except for those that an edit removed from it. */
async function readTasks(store: Store, { plan }: BuildRow, where: { id: TaskRow["id"][] } | { buildId: string }) {
  const rows: TaskPart[] = await store.tasks.pick(where, taskColumns);
  const planned = new Map(plan.tasks.map((task) => [task.key, task]));
  const id = rows.filter(({ key }) => !planned.has(key)).map((row) => row.id);
  const others = id.length === 0 ? [] : await store.tasks.pick({ id }, ["id", "definition"]);
  const definitions = new Map(others.map((row) => [row.id, row.definition]));
  return rows.map((row): Task => {
    const definition = planned.get(row.key) ?? getKnown(definitions, row.id);
    return Object.assign(row, { definition });
  });
}

export function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}
