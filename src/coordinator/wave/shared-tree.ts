import { WavesmithError } from "../../domain/errors.ts";
import { createPathMatcher } from "../../domain/write-globs.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptRow, BuildRow, WaveRow } from "../../store/port.ts";
import type { JoinResult } from "../../workspace/port.ts";
import { keepTree, ownWrites, unlessFull } from "../attempt/keep-work.ts";
import { dropJob } from "../job/job-stages.ts";
import { leftoversRef, sharedTreeAt, sharedTreePath } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { joiner, mergeBranches } from "./join-branches.ts";

// Isolation `shared`: the tasks of a wave work in one tree and see each other's edits. See
// docs/adr/0005-one-tree-for-a-wave.md.
//
// T1. A path belongs to the one task of the wave whose declared writes match it; a task without any
// is alone (W2).
// T2. Before an attempt's job starts, the jobs of the task's earlier attempts have ended, their
// work is on their refs (W8), and the task's paths are as at the wave's base. The same holds of a
// failed task before its wave is joined.
// T3. What differs from the joined head then was left by a task outside of what it declared. It is
// put on a ref, and fails the wave.
// T4. The tree is removed once its wave is joined, or neither running nor joining, and only after
// T3.

/** Whether an attempt works in the tree of its wave; else the tree is its own. */
export const sharesTree = (attempt: Pick<AttemptRow, "treePath">): boolean => sharedTreeAt(attempt.treePath) !== null;

/**
 * The commit at which to open a wave's shared tree: its base with what its tasks have already
 * finished, which is more than the base after a volume was lost or a wave was reopened.
 */
export async function sharedBase(ports: Ports, build: BuildRow, wave: WaveRow): Promise<string> {
  const attempts = await ports.store.attempts.list({ waveId: wave.id, kind: "task" });
  const done = attempts.filter(({ verdict, commitSha }) => verdict?.outcome === "succeeded" && commitSha !== null);
  if (done.length === 0) return wave.baseSha;
  const latest = new Map(done.map(({ taskId, commitSha }) => [taskId, commitSha!]));
  const tasks = await ports.store.tasks.list({ id: [...latest.keys()] as string[] }, { by: "position" });
  const members = tasks.map((task) => ({ ...task, commitSha: latest.get(task.id)! }));
  return (await mergeBranches(ports, { build, wave, members })).head;
}

/** Ends what earlier attempts of the same task left in their wave's shared tree (T2). */
export async function clearEarlier(ports: Ports, endpoint: SandboxEndpoint, attempt: AttemptRow): Promise<void> {
  // Its own job may be at work there already: then all this has been done.
  if ((await ports.store.jobs.find({ key: attempt.jobKey })) !== null) return;
  const { treePath, taskId } = attempt;
  const all = await ports.store.attempts.list({ taskId, treePath }, { by: "number" });
  const earlier = all.findLast(({ number }) => number < attempt.number);
  if (earlier !== undefined) await clearPaths(ports, endpoint, earlier);
}

/**
 * Ends an attempt that did not succeed: its job, then what it did to its task's paths, once that is
 * on its ref (W8). Leaves the paths as they are when there is no room to keep what they hold.
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
    const kept = await unlessFull(keepTree(ports, endpoint, loaded));
    if (kept === "full") {
      ports.log.warn(
        `no room to keep the work of task ${task?.key}; it is left in ${treePath} of the sandbox's volume`,
      );
      return;
    }
    if (kept?.commit != null) await ports.store.attempts.update({ id, commitSha: null }, { commitSha: kept.commit });
  }
  const projectId = build.projectId;
  const only = ownWrites(loaded);
  await ports.workspace.restorePaths({ projectId, guest: endpoint.guest, treePath, base, only });
}

/** What was left in a shared tree and belongs to no task of its wave. */
export interface Leftovers {
  /** Paths, or what could not be kept in words; empty: nothing. */
  readonly unclaimed: readonly string[];
  /** Those of them that the plan declares `generated`: they are made again. */
  readonly generated: readonly string[];
  /** Keys of the tasks that ran in the tree. */
  readonly ran: readonly string[];
  /** Where they are kept; null when there was nothing to keep. */
  readonly ref: string | null;
}

const noLeftovers: Leftovers = { unclaimed: [], generated: [], ran: [], ref: null };

type InTree = Readonly<{ build: BuildRow; wave: WaveRow; treePath: string }>;

/** What nobody claims in the tree of a wave that is to be joined. */
export async function leftoversOf(
  ports: Ports,
  { build, wave }: Omit<InTree, "treePath">,
  joined: Pick<JoinResult, "head" | "conflicts">,
): Promise<Leftovers> {
  const treePath = sharedTreePath(build.id, wave.number, wave.epoch);
  return findLeftovers(ports, { build, wave, treePath }, joined);
}

/**
 * Clears after the tasks that failed, then looks for what nobody claims, and puts it on a ref (T2,
 * T3).
 */
async function findLeftovers(
  ports: Ports,
  { build, wave, treePath }: InTree,
  joined: Pick<JoinResult, "head" | "conflicts">,
): Promise<Leftovers> {
  const attempts = await ports.store.attempts.list({ waveId: wave.id, treePath }, { by: "number" });
  if (attempts.length === 0) return noLeftovers;
  const endpoint = await ensureSandbox(ports, build);
  for (const attempt of new Map(attempts.map((one) => [one.taskId, one])).values())
    await clearPaths(ports, endpoint, attempt);
  const ref = leftoversRef(build.id, wave.number, sharedTreeAt(treePath)!.epoch);
  const projectId = build.projectId;
  const keep = ports.workspace.keepTree({
    projectId,
    guest: endpoint.guest,
    treePath,
    base: joined.head,
    message: `Leftovers of wave ${wave.number}\n\nWavesmith-Build: ${build.id}\nWavesmith-Wave: ${wave.number}\n`,
    author: joiner,
    date: wave.createdAt,
    ref,
  });
  const kept = await keep.catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null; // nothing is there any more
    throw error;
  });
  if (kept === null) return noLeftovers;
  const changed = kept.commit === null ? [] : await unlikeBoth(ports, { build, wave }, joined.head, kept.commit);
  const tasks = await ports.store.tasks.list({ id: attempts.map(({ taskId }) => taskId!) }, { by: "position" });
  const conflicting = new Set(joined.conflicts.map(({ taskKey }) => taskKey));
  const claimed = new Set(tasks.flatMap((task) => (conflicting.has(task.key) ? task.changedFiles : [])));
  const isGenerated = createPathMatcher(build.plan.generated.map(({ path }) => path));
  const left = changed.filter((path) => !claimed.has(path));
  return {
    unclaimed: [...left.filter((path) => !isGenerated(path)), ...kept.refused],
    generated: left.filter(isGenerated),
    ran: tasks.map((task) => task.key),
    ref: kept.commit === null ? null : ref,
  };
}

/**
 * Paths that are neither as in the joined head nor as at the wave's base: only there somebody's
 * edit may be lost.
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

/**
 * Removes a shared tree once nothing more can happen in it (T4). Safe at any time and when there is
 * none.
 */
export async function closeSharedTree(ports: Ports, { build, wave, treePath }: InTree): Promise<void> {
  const epoch = sharedTreeAt(treePath)?.epoch;
  // Once it is joined, its generated files are made again elsewhere.
  if (["running", "joining"].includes(wave.status) && wave.headSha === null && wave.epoch === epoch) return;
  const { guest } = await ensureSandbox(ports, build);
  await turn(ports, treePath, async () => {
    if ((await guest.stat(treePath)) === null) return;
    if (wave.headSha === null) await keepLeftovers(ports, { build, wave, treePath });
    await ports.workspace.closeTree(guest, treePath);
  });
}

/** `closeSharedTree` for each tree that tasks of a wave shared. */
export async function closeTreeOfWave(ports: Ports, buildId: string, waveNumber: number | "last"): Promise<void> {
  const build = await ports.store.builds.find({ id: buildId });
  const which = waveNumber === "last" ? {} : { number: waveNumber };
  const wave = await ports.store.waves.find({ buildId, ...which }, { by: "number", descending: true });
  if (build === null || wave === null) return;
  // Also that of before it was reopened, which may have come before this.
  const attempts = await ports.store.attempts.pick({ waveId: wave.id, kind: "task" }, ["treePath"]);
  const shared = new Set(attempts.flatMap(({ treePath }) => (sharedTreeAt(treePath) === null ? [] : treePath)));
  for (const treePath of shared) await closeSharedTree(ports, { build, wave, treePath });
}

/** Of a wave that was never joined, such as a cancelled one; a joined one has been looked at. */
async function keepLeftovers(ports: Ports, { build, wave, treePath }: InTree): Promise<void> {
  const ref = leftoversRef(build.id, wave.number, sharedTreeAt(treePath)!.epoch);
  if ((await ports.workspace.resolve(build.projectId, ref)) !== null) return;
  const head = await sharedBase(ports, build, wave);
  const found = await findLeftovers(ports, { build, wave, treePath }, { head, conflicts: [] });
  if (found.unclaimed.length > 0) ports.log.warn(`wave ${wave.number}: ${leftoversReason(found)}`);
}

/** Of each process; several may be simulated in one. */
const turns = new WeakMap<Ports["store"], Map<string, Promise<unknown>>>();

/** One at a time for a tree: whoever keeps it must not see it half removed. */
async function turn({ store }: Ports, treePath: string, work: () => Promise<void>): Promise<void> {
  const own = turns.get(store) ?? new Map<string, Promise<unknown>>();
  turns.set(store, own);
  const before = own.get(treePath) ?? Promise.resolve();
  const mine = before.then(work, work);
  own.set(treePath, mine);
  await mine.finally(() => {
    if (own.get(treePath) === mine) own.delete(treePath);
  });
}

/**
 * Why the wave failed in which this task's last attempt had succeeded; null when it did not, or not
 * by leftovers.
 */
export async function failureOfWave(ports: Ports, build: BuildRow, taskId: string): Promise<string | null> {
  const last = await ports.store.attempts.find({ taskId, status: "settled" }, { by: "number", descending: true });
  if (last?.outcome !== "succeeded" || !sharesTree(last)) return null;
  const wave = await ports.store.waves.get({ id: last.waveId });
  const ref = leftoversRef(build.id, wave.number, wave.epoch);
  const isIt = wave.status === "failed" && (await ports.workspace.resolve(build.projectId, ref)) !== null;
  return isIt ? wave.reason : null;
}

/** Why a wave fails in whose tree something was left. */
export function leftoversReason({ unclaimed, ran, ref }: Leftovers): string {
  const shown = unclaimed.slice(0, 10);
  if (unclaimed.length > shown.length) shown.push(`and ${unclaimed.length - shown.length} more`);
  const kept = ref === null ? "" : `; kept on ${ref.replace("refs/heads/", "")}`;
  return `left in the shared tree, and declared by none of its tasks (${ran.join(", ")}): ${shown.join(", ")}${kept}. Declare such paths in \`writes\`, or have them ignored by a .gitignore`;
}
