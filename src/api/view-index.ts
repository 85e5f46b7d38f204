import type { StatusAttempt, StatusView, StatusWave, TaskView } from "../coordinator/build/build-view.ts";

// Finds the tasks of a build, and the attempts at each, without a search: a build may have hundreds
// of tasks, and most views look up every one of them.

interface TaskAttempt {
  readonly wave: StatusWave;
  readonly attempt: StatusAttempt;
}

interface ViewIndex {
  readonly tasks: ReadonlyMap<string, TaskView>;
  readonly attempts: ReadonlyMap<string, readonly TaskAttempt[]>;
}

const indexes = new WeakMap<StatusView, ViewIndex>();

/** Finds a task by its key; null if the build has none. */
export const findTask = (view: StatusView, key: string): TaskView | null => indexOf(view).tasks.get(key) ?? null;

/** Returns a task that the build is known to have, such as one of a wave. */
export function getTask(view: StatusView, key: string): TaskView {
  const task = findTask(view, key);
  if (task === null) throw new Error(`build ${view.build.id} has no task ${key}`);
  return task;
}

/** Returns the attempts at a task, with their waves, in the order of the waves. */
export const attemptsAt = (view: StatusView, key: string): readonly TaskAttempt[] =>
  indexOf(view).attempts.get(key) ?? [];

function indexOf(view: StatusView): ViewIndex {
  const known = indexes.get(view);
  if (known !== undefined) return known;
  const attempts = new Map<string, TaskAttempt[]>();
  for (const wave of view.waves)
    for (const attempt of wave.attempts) {
      if (attempt.taskKey === null) continue;
      const ofTask = attempts.get(attempt.taskKey);
      if (ofTask === undefined) attempts.set(attempt.taskKey, [{ wave, attempt }]);
      else ofTask.push({ wave, attempt });
    }
  const index = { tasks: new Map(view.tasks.map((task) => [task.key, task])), attempts };
  indexes.set(view, index);
  return index;
}
