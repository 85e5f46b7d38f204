import { waveMs } from "../../api/build-result.ts";
import { spentBy, spentInWave } from "../../api/spending.ts";
import type { AttemptView, BuildView, TaskView, WaveView } from "../../coordinator/build/build-view.ts";
import { makesPlan, withoutPlanTask } from "../../domain/plan/brief.ts";
import { roomRemedy } from "../../domain/sandbox/sandbox.ts";
import { count, duration, harmless, oneLine, shortSha } from "../output/format.ts";
import { gateLines } from "./gate-lines.ts";
import type { Line } from "./line.ts";
import { andSpentAtEnd } from "./spending.ts";

// Describes what happened between two reads of a build, as lines. Pure: however far apart the reads
// are, nothing is missed and nothing is reported twice.

interface Told extends Line {
  readonly at: number;
}

/** Returns the lines that lead from `before` to `after`, in order. */
export function narrate(before: BuildView | null, after: BuildView): Line[] {
  const lines: Line[] = sandboxLines(before, after);
  for (const wave of after.waves) {
    const known = before?.waves.find((candidate) => candidate.id === wave.id);
    lines.push(...waveLines(before, after, known, wave));
  }
  lines.push(...skippedLines(before, after));
  lines.push(...previewLines(before, after));
  return lines;
}

function sandboxLines(before: BuildView | null, after: BuildView): Line[] {
  return [...roomLines(before, after), ...troubleLines(before, after)];
}

/** Reported when it begins and ends, not each time its numbers change. */
function troubleLines(before: BuildView | null, { build, sandboxTrouble: what }: BuildView): Line[] {
  const known = before?.sandboxTrouble ?? null;
  if ((what === null) === (known === null) || build.status !== "running") return [];
  if (what === null) return [{ tone: "plain", text: "its sandbox accepts jobs again" }];
  return [{ tone: "warn", text: `its sandbox accepts no more jobs: ${oneLine(what)}` }];
}

/**
 * Reports that a build waits for a sandbox slot, so that it does not seem to hang, and again when
 * it waits for something else, not each time the numbers change.
 */
function roomLines(before: BuildView | null, { build, waitsForSandbox: why }: BuildView): Line[] {
  const known = before?.waitsForSandbox ?? null;
  if (withoutNumbers(why) === withoutNumbers(known) || build.status !== "running") return [];
  if (why === null) return [{ tone: "plain", text: "its sandbox can start: continuing" }];
  return [{ tone: "warn", text: `waiting for a free sandbox slot: ${oneLine(why)}; ${roomRemedy}` }];
}

const withoutNumbers = (text: string | null): string | undefined => text?.replace(/[0-9]+/g, "#");

function waveLines(before: BuildView | null, after: BuildView, known: WaveView | undefined, wave: WaveView): Line[] {
  const told: Told[] = [];
  if (known === undefined) told.push(opened(after, wave));
  else if (known.status !== wave.status && isEnded(known) && !isEnded(wave)) told.push(reopened(wave));
  for (const attempt of wave.attempts) {
    const earlier = known?.attempts.find((candidate) => candidate.id === attempt.id);
    told.push(...attemptLines(after, wave, earlier, attempt));
  }
  told.push(...joinLines(before, after, known, wave));
  for (const gate of wave.gates) {
    const earlier = known?.gates.find((candidate) => candidate.id === gate.id);
    if (gate.status !== "finished" || earlier?.status === "finished") continue;
    told.push(...gateLines(wave.number, gate).map((line) => ({ ...line, at: time(gate.endedAt, wave) })));
  }
  if (isEnded(wave) && (known === undefined || !isEnded(known))) told.push(ended(after, wave));
  // Sorting is stable, so lines of the same moment keep the order above.
  return told.sort((left, right) => left.at - right.at);
}

const isEnded = (wave: WaveView): boolean => ["passed", "blocked", "failed", "cancelled"].includes(wave.status);
const time = (moment: Date | null, wave: WaveView): number => (moment ?? wave.createdAt).getTime();

function opened(view: BuildView, wave: WaveView): Told {
  const names = wave.taskKeys.map((key) => `${key} (${taskOf(view, key)?.agent ?? "?"})`);
  const text = `wave ${wave.number}: ${names.join(", ")}`;
  return { at: wave.createdAt.getTime(), tone: "strong", text };
}

const reopened = (wave: WaveView): Told => ({
  at: wave.createdAt.getTime(),
  tone: "strong",
  text: `wave ${wave.number}: opened again`,
});

function ended(view: BuildView, wave: WaveView): Told {
  const at = time(wave.endedAt, wave) + 1;
  const took = wave.endedAt === null ? "" : ` after ${duration(waveMs(wave, wave.endedAt))}`;
  const why = wave.reason === null ? "" : `: ${oneLine(wave.reason)}`;
  const spent = andSpentAtEnd(spentInWave(view, wave));
  if (wave.status === "passed") {
    const sha = wave.headSha === null ? "" : ` at ${shortSha(wave.headSha)}`;
    return { at, tone: "good", text: `wave ${wave.number}: passed${sha}${took}${spent}` };
  }
  const tone = wave.status === "cancelled" ? "warn" : "bad";
  return { at, tone, text: `wave ${wave.number}: ${wave.status}${took}${spent}${why}` };
}

const taskOf = (view: BuildView, key: string): TaskView | undefined => view.tasks.find((task) => task.key === key);

/** The attempt's name: its task, or what it does to the wave's head. */
export function attemptName(wave: Pick<WaveView, "number">, attempt: AttemptView): string {
  if (attempt.taskKey !== null) return attempt.taskKey;
  return attempt.kind === "fix" ? `fix of wave ${wave.number}` : `generated files of wave ${wave.number}`;
}

function attemptLines(view: BuildView, wave: WaveView, earlier: AttemptView | undefined, attempt: AttemptView): Told[] {
  const told: Told[] = [];
  const name = attemptName(wave, attempt);
  if (attempt.startedAt !== null && (earlier === undefined || earlier.startedAt === null)) {
    const again = attempt.number > 1 && attempt.kind === "task" ? `, attempt ${attempt.number}` : "";
    const round = attempt.kind === "fix" ? `, round ${attempt.number} of ${view.build.plan.gates.maxFixRounds}` : "";
    const text = `  ${name}: started (${attempt.role}${again}${round})`;
    told.push({ at: attempt.startedAt.getTime(), tone: "dim", text, minor: true });
  }
  if (attempt.status === "settled" && earlier?.status !== "settled") {
    told.push({ at: time(attempt.endedAt, wave), ...settledLine(view, name, attempt) });
  }
  return told;
}

function settledLine(view: BuildView, name: string, attempt: AttemptView): Line {
  const began = attempt.startedAt ?? attempt.createdAt;
  const took = attempt.endedAt === null ? "" : duration(attempt.endedAt.getTime() - began.getTime());
  const why = attempt.reason === null ? "" : `: ${oneLine(attempt.reason)}`;
  const spent = andSpentAtEnd(spentBy(view, [attempt]));
  if (attempt.outcome === "succeeded") {
    const changed = changedText(view, attempt);
    return { tone: "good", text: `  ${name}: done in ${took} (${attempt.role}), ${changed}${spent}` };
  }
  const next = attempt.taskKey === null ? "" : whatNext(taskOf(view, attempt.taskKey), attempt);
  const tone = attempt.outcome === "cancelled" || next !== "" ? "warn" : "bad";
  return { tone, text: `  ${name}: ${attempt.outcome} after ${took} (${attempt.role})${spent}${why}${next}` };
}

function changedText({ build }: BuildView, { taskKey, changed }: AttemptView): string {
  if (makesPlan(build, taskKey)) return `a plan of ${count(withoutPlanTask(build.plan).tasks.length, "task")}`;
  return changed.length === 0 ? "no file changed" : `${count(changed.length, "file")} changed`;
}

/** Returns what happens next to a task whose attempt did not succeed. */
function whatNext(task: TaskView | undefined, attempt: AttemptView): string {
  if (task === undefined || attempt.outcome === "cancelled" || attempt.outcome === "over-budget") return "";
  const isLatest = task.attempts === attempt.number;
  if (isLatest && !["assigned", "running", "joining", "completed"].includes(task.status)) return "";
  if (attempt.outcome === "lost") return "; it runs again without using a retry";
  return `; trying again (retry ${task.retriesUsed} of ${task.definition.retries})`;
}

function joinLines(before: BuildView | null, after: BuildView, known: WaveView | undefined, wave: WaveView): Told[] {
  const told: Told[] = [];
  const settled = Math.max(wave.createdAt.getTime(), ...wave.attempts.flatMap(taskEnd));
  const conflicts = after.tasks.flatMap((task) => {
    const earlier = before?.tasks.find((candidate) => candidate.key === task.key)?.conflicts.length ?? 0;
    return task.conflicts
      .slice(earlier)
      .filter((conflict) => conflict.waveNumber === wave.number)
      .map((conflict) => ({ task, conflict }));
  });
  for (const { task, conflict } of conflicts) {
    const paths = conflict.paths.slice(0, 5).map(harmless).join(", ");
    const others = (conflict.otherKeys ?? []).slice(0, 5).join(", ");
    const text = `  ${task.key}: conflicts with ${others === "" ? "another task" : others} of wave ${wave.number} in ${paths}; it runs again on the joined work`;
    told.push({ at: settled, tone: "warn", text });
  }
  if (wave.headSha !== null && (known === undefined || known.headSha === null)) {
    const joined = wave.taskKeys.filter((key) => wasJoined(taskOf(after, key), wave)).length;
    told.push({
      at: settled,
      tone: "plain",
      text: `  joined: ${count(joined, "task")} of wave ${wave.number}`,
      minor: true,
    });
  }
  return told;
}

const taskEnd = (attempt: AttemptView): number[] =>
  attempt.kind === "task" && attempt.endedAt !== null ? [attempt.endedAt.getTime()] : [];

const wasJoined = (task: TaskView | undefined, wave: WaveView): boolean =>
  task !== undefined &&
  task.status === "completed" &&
  task.waveNumber === wave.number &&
  !task.conflicts.some((conflict) => conflict.waveNumber === wave.number);

function skippedLines(before: BuildView | null, after: BuildView): Line[] {
  if (before === null) return [];
  const was = new Map(before.tasks.map((task) => [task.key, task.status]));
  return after.tasks
    .filter((task) => task.status === "skipped" && was.get(task.key) !== "skipped")
    .map((task) => ({ tone: "warn", text: `  ${task.key}: skipped: ${oneLine(task.reason ?? "")}` }));
}

function previewLines(before: BuildView | null, { preview }: BuildView): Line[] {
  if (preview === null || preview.status === before?.preview?.status) return [];
  if (preview.status === "starting") return [{ tone: "dim", text: "preview: starting", minor: true }];
  if (preview.status !== "dead") return [];
  return [{ tone: "bad", text: `preview: dead: ${oneLine(preview.reason ?? "")}` }];
}
