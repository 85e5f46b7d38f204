import type { EventData } from "../../domain/events/events.ts";
import { present } from "../../domain/known.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptRow, TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

interface Ran {
  readonly guest: SandboxEndpoint["guest"];
  readonly treePath: string;
  readonly attempts: readonly AttemptRow[];
  readonly tasks: readonly TaskRow[];
}

const maxPaths = 20;
/** Clocks of a file system may be this much behind. */
const clockMs = 50;

/**
 * Returns which tasks probably wrote these files of a shared tree, by path: the ones whose agents
 * said so, otherwise the ones that were running when the file was last modified. A path that may
 * come from any of them is left out.
 */
export async function findWriters(
  ports: Ports,
  ran: Ran,
  paths: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const { guest, treePath, attempts, tasks } = ran;
  const writers = new Map<string, readonly string[]>();
  const edits = paths.length === 0 ? new Map() : await reportedEdits(ports, ran);
  const jobs = await ports.store.jobs.list({ key: attempts.map(({ jobKey }) => jobKey) });
  const began = new Map(jobs.map(({ key, createdAt }) => [key, createdAt]));
  const keysOf = (found: readonly AttemptRow[]): string[] =>
    tasks.filter(({ id }) => found.some(({ taskId }) => taskId === id)).map(({ key }) => key);
  for (const path of paths.slice(0, maxPaths)) {
    const modified = edits.has(path) ? null : await guest.stat(`${treePath}/${path}`);
    const running =
      modified === null ? [] : attempts.filter((one) => mayHaveRun(one, began, Date.parse(modified.modifiedAt)));
    const keys = edits.get(path) ?? keysOf(running);
    if (keys.length > 0 && keys.length < tasks.length) writers.set(path, keys);
  }
  return writers;
}

/** A job's row is written right before the job starts; the attempt says that it runs only later. */
const mayHaveRun = (attempt: AttemptRow, began: ReadonlyMap<string, Date>, at: number): boolean =>
  at >= (began.get(attempt.jobKey) ?? attempt.createdAt).getTime() - clockMs &&
  (attempt.endedAt === null || at <= attempt.endedAt.getTime());

/** Returns the keys of the tasks whose agents reported an edit, by path in the tree. */
async function reportedEdits({ store }: Ports, { attempts, treePath }: Ran): Promise<Map<string, string[]>> {
  const { buildId } = present(attempts[0], "an attempt");
  const jobs = new Set(attempts.map(({ jobKey }) => jobKey));
  const edits = new Map<string, string[]>();
  for (const { data } of await store.outbox.list({ buildId, name: "agent/activity.reported" }, { by: "seq" })) {
    const { jobKey, taskKey, activity } = data as EventData<"agent/activity.reported">;
    if (activity.kind !== "edit" || taskKey === null || !jobs.has(jobKey)) continue;
    const path = activity.path.split(`/${treePath}/`).at(-1) ?? activity.path;
    const keys = edits.get(path) ?? [];
    if (!keys.includes(taskKey)) edits.set(path, [...keys, taskKey]);
  }
  return edits;
}
