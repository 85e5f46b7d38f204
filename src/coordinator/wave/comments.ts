import { WavesmithError } from "../../domain/errors.ts";
import type { AttemptRow, CommentRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

// People's comments: findings about lines of a build's work.
//
// CM1. A comment is about a wave, or about a task. An open one keeps its wave from passing until a
// fix has got it or a person has approved the wave all the same. A task's next attempt gets its
// own.
// CM2. A comment is resolved when the attempt that got it succeeded and changed its file. Otherwise
// it is open again, and the next fix gets it, as long as there are rounds.

const maxTextLength = 20_000;

export interface GivenComment {
  readonly text: string;
  readonly by: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly endLine: number | null;
  /** The task whose next attempt gets it; null: the wave's fixer. */
  readonly taskKey: string | null;
}

/**
 * Stores a comment. Fails with `conflict` for a build that has completed or was cancelled, and with
 * `not-found` for an unknown task.
 */
export async function addComment(ports: Ports, buildId: string, comment: GivenComment): Promise<CommentRow> {
  const { by, file, line, endLine, taskKey } = comment;
  const text = comment.text.trim();
  refuseMisplaced({ ...comment, text });
  return ports.store.transaction("add-comment", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (build.status === "completed" || build.status === "cancelled") {
      throw new WavesmithError("conflict", `build ${buildId} is ${build.status}: nobody would read a comment`, {
        remedy: "put it into the plan of the project's next build",
      });
    }
    const task = taskKey === null ? null : await transaction.tasks.find({ buildId, key: taskKey });
    if (taskKey !== null && task === null) {
      const remedy = `wavesmith status ${buildId}`;
      throw new WavesmithError("not-found", `build ${buildId} has no task ${taskKey}`, { remedy });
    }
    const wave = await latestWaveOf(transaction, buildId);
    const isOpen = wave !== null && !["passed", "failed", "cancelled"].includes(wave.status);
    const row = await transaction.comments.insert({
      ...{ buildId, file, line, endLine, text, by, state: "open", createdAt: ports.clock.now() },
      taskId: task?.id ?? null,
      waveId: isOpen ? wave.id : null,
      sha: wave?.headSha ?? task?.commitSha ?? null,
    });
    await eventsOf(transaction, build).commented(row, taskKey);
    return row;
  });
}

function refuseMisplaced({ text, file, line, endLine }: GivenComment): void {
  const fails = (message: string): never => {
    throw new WavesmithError("usage", message, { remedy: 'wavesmith comment BUILD "text" --file FILE --line LINE' });
  };
  if (text === "") fails("the comment is empty");
  if (text.length > maxTextLength) fails(`the comment is longer than ${maxTextLength} characters`);
  if (file === null && line !== null) fails("a line needs its file");
  if (file !== null && (file.startsWith("/") || file.split("/").includes("..")))
    fails(`${file} is not a path in the project`);
  if (endLine !== null && (line === null || endLine < line)) fails("the last line comes before the first");
}

/** Whether an open comment keeps a wave from passing (CM1). */
export async function hasOpenComments(transaction: StoreTransaction, waveId: string): Promise<boolean> {
  return (await transaction.comments.find({ waveId, taskId: null, state: "open" })) !== null;
}

/** Makes the comments that wait for the build's next wave part of it. */
export async function adoptComments(transaction: StoreTransaction, { id, buildId }: WaveRow): Promise<void> {
  await transaction.comments.update({ buildId, waveId: null, taskId: null, state: "open" }, { waveId: id });
}

/** Gives an attempt the open comments of its wave, for a fix, or of its task. */
export async function giveComments(
  transaction: StoreTransaction,
  { id: attemptId, kind, waveId, taskId }: Pick<AttemptRow, "id" | "kind" | "waveId" | "taskId">,
): Promise<void> {
  if (kind === "generate") return;
  const where = kind === "fix" ? { waveId, taskId: null } : { taskId };
  await transaction.comments.update({ ...where, state: "open" }, { state: "given", attemptId });
}

/** Resolves or reopens the comments that a settled attempt got (CM2). */
export async function settleComments(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  { id: attemptId, outcome, verdict }: AttemptRow,
): Promise<void> {
  const given = await transaction.comments.list({ attemptId, state: "given" });
  if (given.length === 0) return;
  const changed = new Set(outcome === "succeeded" ? verdict?.changed : []);
  const isResolved = ({ file }: CommentRow) => (file === null ? changed.size > 0 : changed.has(file));
  const idsOf = (rows: readonly CommentRow[]) => rows.map(({ id }) => id);
  const resolved = given.filter(isResolved);
  await transaction.comments.update({ id: idsOf(resolved) }, { state: "resolved", settledAt: ports.clock.now() });
  await transaction.comments.update({ id: idsOf(given.filter((row) => !isResolved(row))) }, { state: "open" });
}

/** Closes the open comments of a wave that passes or is cancelled. */
export async function supersedeComments(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  waveId: string,
): Promise<void> {
  const patch = { state: "superseded", settledAt: ports.clock.now() } as const;
  await transaction.comments.update({ waveId, state: ["open", "given"] }, patch);
}

/** Lists the comments that an attempt was given, oldest first. */
export const commentsOf = (
  { store }: Pick<Ports, "store">,
  { id: attemptId }: Pick<AttemptRow, "id">,
): Promise<CommentRow[]> => store.comments.list({ attemptId, state: "given" }, { by: "id" });
