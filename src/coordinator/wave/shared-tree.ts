import { WavesmithError } from "../../domain/errors.ts";
import { getKnown, present } from "../../domain/known.ts";
import { createPathMatcher } from "../../domain/paths/write-globs.ts";
import { leftoversRef } from "../../domain/refs/build-refs.ts";
import { sharedTreeAt, sharedTreePath } from "../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { AttemptRow, BuildRow, WaveRow } from "../../store/port.ts";
import type { JoinResult } from "../../workspace/port.ts";
import { keepAttemptTree, ownWrites, unlessFull } from "../attempt/kept-work.ts";
import { commitTrailers } from "../commit-trailers.ts";
import { dropJob } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { findWriters } from "./leftover-writers.ts";
import { joiner, mergeBranches } from "./merge-branches.ts";

// Isolation `shared`: the tasks of a wave work in one tree and see each other's edits. See
// docs/adr/0005-one-tree-for-a-wave.md.
//
// ST1. A path belongs to the one task of the wave whose declared writes match it; a task without
// declared writes is alone (W2).
// ST2. Before an attempt's job starts, the jobs of the task's earlier attempts have ended, their
// work is on their refs (W8), and the task's paths are as in the wave's base. The same is true of a
// failed task before its wave is joined.
// ST3. Any remaining difference from the joined head comes from a task that wrote outside its
// declared paths. It is saved on a ref, and the wave fails.
// ST4. The tree is removed after ST3, once its wave is joined, or neither running nor joining.

/** Whether an attempt works in its wave's shared tree instead of its own. */
export const sharesTree = (attempt: Pick<AttemptRow, "treePath">): boolean => sharedTreeAt(attempt.treePath) !== null;

/**
 * Returns the commit for opening a wave's shared tree: its base plus the finished work of its
 * tasks, of which there is some after a volume was lost or the wave was reopened.
 */
export async function sharedBase(ports: Ports, build: BuildRow, wave: WaveRow): Promise<string> {
  const attempts = await ports.store.attempts.list({ waveId: wave.id, kind: "task" });
  const done = attempts.filter(({ verdict, commitSha }) => verdict?.outcome === "succeeded" && commitSha !== null);
  if (done.length === 0) return wave.baseSha;
  const latest = new Map(done.map(({ taskId, commitSha }) => [taskId, present(commitSha, "commitSha")]));
  const tasks = await ports.store.tasks.list({ id: [...latest.keys()] as string[] }, { by: "position" });
  const members = tasks.map((task) => ({ ...task, commitSha: getKnown(latest, task.id) }));
  return (await mergeBranches(ports, { build, wave, members })).head;
}

/** Clears the leftovers of the task's earlier attempts in the wave's shared tree (ST2). */
export async function clearEarlier(ports: Ports, endpoint: SandboxEndpoint, attempt: AttemptRow): Promise<void> {
  // If the attempt's own job has started, this has already been done.
  if ((await ports.store.jobs.find({ key: attempt.jobKey })) !== null) return;
  const { treePath, taskId } = attempt;
  const all = await ports.store.attempts.list({ taskId, treePath }, { by: "number" });
  const earlier = all.findLast(({ number }) => number < attempt.number);
  if (earlier !== undefined) await clearPaths(ports, endpoint, earlier);
}

/**
 * Ends an unsuccessful attempt's job, keeps its work on its ref (W8) and restores its task's paths.
 * Leaves the paths unchanged if there is no room to keep their content.
 */
export async function clearPaths(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { id }: Pick<AttemptRow, "id">,
): Promise<void> {
  const loaded = await ports.store.attemptInContext(id);
  const { attempt, build, task } = loaded;
  if ((attempt.outcome ?? attempt.verdict?.outcome) === "succeeded") return;
  await dropJob(ports, endpoint, attempt.jobKey);
  const { treePath, baseSha: base } = attempt;
  if ((await endpoint.guest.stat(treePath)) === null) return;
  if (attempt.commitSha === null) {
    const kept = await unlessFull(keepAttemptTree(ports, endpoint, loaded));
    if (kept === "full") {
      ports.log.warn(
        `the disk is too full to save the work of task ${task?.key}; it stays in ${treePath} of the sandbox's volume`,
      );
      return;
    }
    if (kept?.commit != null) await ports.store.attempts.update({ id, commitSha: null }, { commitSha: kept.commit });
  }
  const projectId = build.projectId;
  const only = ownWrites(loaded);
  await ports.workspace.restorePaths({ projectId, guest: endpoint.guest, treePath, base, only });
}

/** Changes in a shared tree that belong to no task of its wave. */
export interface SharedTreeLeftovers {
  /** The paths, or descriptions of changes that could not be kept. */
  readonly unclaimed: readonly string[];
  /** Paths among them that the plan declares as `generated`, which are regenerated. */
  readonly generated: readonly string[];
  /** Keys of the tasks that ran in the tree. */
  readonly ran: readonly string[];
  /** The keys of the tasks that wrote them, by path, as far as that is known. */
  readonly writers: ReadonlyMap<string, readonly string[]>;
  /** The ref that keeps them; null when there was nothing to keep. */
  readonly ref: string | null;
}

const noLeftovers: SharedTreeLeftovers = { unclaimed: [], generated: [], ran: [], writers: new Map(), ref: null };

type InTree = Readonly<{ build: BuildRow; wave: WaveRow; treePath: string }>;

/** Returns the leftovers in the tree of a wave that is about to be joined. */
export async function leftoversOf(
  ports: Ports,
  { build, wave }: Omit<InTree, "treePath">,
  joined: Pick<JoinResult, "head" | "conflicts">,
): Promise<SharedTreeLeftovers> {
  const treePath = sharedTreePath(build.id, wave.number, wave.epoch);
  return findLeftovers(ports, { build, wave, treePath }, joined);
}

/** Clears the paths of failed tasks, then saves any leftovers on a ref (ST2, ST3). */
async function findLeftovers(
  ports: Ports,
  { build, wave, treePath }: InTree,
  joined: Pick<JoinResult, "head" | "conflicts">,
): Promise<SharedTreeLeftovers> {
  const attempts = await ports.store.attempts.list({ waveId: wave.id, treePath }, { by: "number" });
  if (attempts.length === 0) return noLeftovers;
  const endpoint = await ensureSandbox(ports, build);
  for (const attempt of new Map(attempts.map((one) => [one.taskId, one])).values())
    await clearPaths(ports, endpoint, attempt);
  const ref = leftoversRef(build.id, wave.number, present(sharedTreeAt(treePath), treePath).epoch);
  const projectId = build.projectId;
  const keep = ports.workspace.keepTree({
    projectId,
    guest: endpoint.guest,
    treePath,
    base: joined.head,
    message: `Leftovers of wave ${wave.number}\n\n${commitTrailers(build, wave, null).join("\n")}\n`,
    author: joiner,
    date: wave.createdAt,
    ref,
  });
  const kept = await keep.catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null; // the tree is gone
    throw error;
  });
  if (kept === null) return noLeftovers;
  const changed = kept.commit === null ? [] : await unlikeBoth(ports, { build, wave }, joined.head, kept.commit);
  const tasks = await ports.store.tasks.list(
    { id: attempts.map(({ taskId }) => present(taskId, "taskId")) },
    { by: "position" },
  );
  const conflicting = new Set(joined.conflicts.map(({ taskKey }) => taskKey));
  const claimed = new Set(tasks.flatMap((task) => (conflicting.has(task.key) ? task.changedFiles : [])));
  const isGenerated = createPathMatcher(build.plan.generated.map(({ path }) => path));
  const left = changed.filter((path) => !claimed.has(path));
  const writers = await findWriters(ports, { guest: endpoint.guest, treePath, attempts, tasks }, left);
  return {
    unclaimed: [...left.filter((path) => !isGenerated(path)), ...kept.refused],
    generated: left.filter(isGenerated),
    ran: tasks.map((task) => task.key),
    writers,
    ref: kept.commit === null ? null : ref,
  };
}

/**
 * Lists the paths that differ from both the joined head and the base, where an edit may be lost.
 */
async function unlikeBoth(
  ports: Ports,
  { build, wave }: Omit<InTree, "treePath">,
  head: string,
  found: string,
): Promise<string[]> {
  const differing = async (from: string) => {
    const files = await ports.workspace.changedFiles(build.projectId, from, found);
    return files.flatMap((file) => (file.from === null ? [file.path] : [file.from, file.path]));
  };
  const fromBase = new Set(await differing(wave.baseSha));
  return [...new Set(await differing(head))].filter((path) => fromBase.has(path));
}

/** Removes a shared tree once nothing uses it any more (ST4). Safe at any time. */
export async function closeSharedTree(ports: Ports, { build, wave, treePath }: InTree): Promise<void> {
  const epoch = sharedTreeAt(treePath)?.epoch;
  // After the join, generated files are regenerated in another tree.
  if (["running", "joining"].includes(wave.status) && wave.headSha === null && wave.epoch === epoch) return;
  const { guest } = await ensureSandbox(ports, build);
  await runInTurn(ports, treePath, async () => {
    if ((await guest.stat(treePath)) === null) return;
    if (wave.headSha === null) await keepLeftovers(ports, { build, wave, treePath });
    await ports.workspace.closeTree(guest, treePath);
  });
}

/** Closes each tree that tasks of a wave shared. */
export async function closeTreeOfWave(ports: Ports, buildId: string, waveNumber: number | "last"): Promise<void> {
  const build = await ports.store.builds.find({ id: buildId });
  const which = waveNumber === "last" ? {} : { number: waveNumber };
  const wave = await ports.store.waves.find({ buildId, ...which }, { by: "number", descending: true });
  if (build === null || wave === null) return;
  // Includes the trees from before the wave was reopened.
  const attempts = await ports.store.attempts.pick({ waveId: wave.id, kind: "task" }, ["treePath"]);
  const shared = new Set(attempts.flatMap(({ treePath }) => (sharedTreeAt(treePath) === null ? [] : treePath)));
  for (const treePath of shared) await closeSharedTree(ports, { build, wave, treePath });
}

/** Keeps the leftovers of a wave that was never joined, such as a cancelled one. */
async function keepLeftovers(ports: Ports, { build, wave, treePath }: InTree): Promise<void> {
  const ref = leftoversRef(build.id, wave.number, present(sharedTreeAt(treePath), treePath).epoch);
  if ((await ports.workspace.resolve(build.projectId, ref)) !== null) return;
  const head = await sharedBase(ports, build, wave);
  const found = await findLeftovers(ports, { build, wave, treePath }, { head, conflicts: [] });
  if (found.unclaimed.length > 0) ports.log.warn(`wave ${wave.number}: ${leftoversReason(found)}`);
}

/** Queues by store, because tests simulate several processes in one. */
const turns = new WeakMap<Ports["store"], Map<string, Promise<unknown>>>();

/** Runs work on a tree one at a time, so that nothing keeps a tree while it is being removed. */
async function runInTurn({ store }: Ports, treePath: string, work: () => Promise<void>): Promise<void> {
  const own = turns.get(store) ?? new Map<string, Promise<unknown>>();
  turns.set(store, own);
  const before = own.get(treePath) ?? Promise.resolve();
  const result = before.then(work, work);
  own.set(treePath, result);
  await result.finally(() => {
    if (own.get(treePath) === result) own.delete(treePath);
  });
}

/** Returns why leftovers failed the wave in which this task's last attempt succeeded, or null. */
export async function failureOfWave(ports: Ports, build: BuildRow, taskId: string): Promise<string | null> {
  const last = await ports.store.attempts.find({ taskId, status: "settled" }, { by: "number", descending: true });
  if (last?.outcome !== "succeeded" || !sharesTree(last)) return null;
  const wave = await ports.store.waves.get({ id: last.waveId });
  const ref = leftoversRef(build.id, wave.number, wave.epoch);
  const isIt = wave.status === "failed" && (await ports.workspace.resolve(build.projectId, ref)) !== null;
  return isIt ? wave.reason : null;
}

const maxShown = 10;

/** Returns why leftovers fail a wave. */
export function leftoversReason({ unclaimed, ran, writers, ref }: SharedTreeLeftovers): string {
  const shown = unclaimed.slice(0, maxShown).map((path) => {
    const keys = writers.get(path) ?? [];
    return keys.length === 0 ? path : `${path} (by ${keys.join(" or ")})`;
  });
  if (unclaimed.length > shown.length) shown.push(`and ${unclaimed.length - shown.length} more`);
  const kept = ref === null ? "" : `; kept on ${ref.replace("refs/heads/", "")}`;
  return `changes in the shared tree, declared by none of its tasks (${ran.join(", ")}): ${shown.join(", ")}${kept}. Declare these paths in \`writes\`, or add them to a .gitignore`;
}
