import type { BuildView, TaskView, WaveView } from "../../coordinator/build/read-build.ts";
import { gateNames } from "../../domain/status.ts";
import { clock, count, duration } from "../format.ts";
import type { Tone } from "../palette.ts";
import { questionRows } from "./question-lines.ts";
import { elapsedMs, waveMs } from "./result.ts";
import { type Row, type Segment, segment } from "./segments.ts";
import { andSpent, budgetText, spentBy, spentByTask, spentText } from "./spending.ts";
import { currentWave, liveAttempt, phaseOf, waitsFor } from "./waiting.ts";

// Draws the live region of a terminal. Pure: a view, a size and a time give rows.

export interface LiveOptions {
  readonly rows: number;
  readonly now: Date;
  /** Counts frames to turn the spinner. */
  readonly frame: number;
}

const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
export const spin = (frame: number): string => spinner[frame % spinner.length]!;

const glyphs: Record<string, { tone: Tone; glyph: string }> = {
  completed: { tone: "good", glyph: "✓" },
  passed: { tone: "good", glyph: "✓" },
  failed: { tone: "bad", glyph: "✗" },
  blocked: { tone: "bad", glyph: "✗" },
  inconclusive: { tone: "bad", glyph: "?" },
  joining: { tone: "good", glyph: "◆" },
  skipped: { tone: "warn", glyph: "↷" },
  cancelled: { tone: "warn", glyph: "■" },
  removed: { tone: "dim", glyph: "-" },
  absent: { tone: "dim", glyph: "–" },
  "not-due": { tone: "dim", glyph: "–" },
  off: { tone: "dim", glyph: "–" },
};
const waitingGlyph: Segment = segment("dim", "·");

function glyphOf(status: string): Segment {
  const known = glyphs[status];
  return known === undefined ? waitingGlyph : segment(known.tone, known.glyph);
}

/** Returns at most `rows` rows: header, passed waves, the current wave in full, and later tasks. */
export function renderLive(view: BuildView, options: LiveOptions): Row[] {
  const wave = currentWave(view);
  const head = [[], headerRow(view, options), ...questionRows(view, options.now)];
  const current = wave === null ? [] : waveRows(view, wave, options);
  const later = laterRows(view);
  const space = options.rows - head.length - current.length;
  if (space < 0) return [...head.slice(1), ...current].slice(0, Math.max(1, options.rows));
  const past = wave === null ? [] : pastRows(view, wave);
  const shownPast = past.slice(-Math.max(0, Math.min(past.length, space - Math.min(later.length, 4))));
  return [...head, ...(space === 0 ? [] : shownPast), ...current, ...cut(later, space - shownPast.length)].slice(
    0,
    options.rows,
  );
}

function cut(rows: readonly Row[], space: number): Row[] {
  if (rows.length <= space) return [...rows];
  if (space <= 1) return [];
  return [...rows.slice(0, space - 1), [segment("dim", `      … and ${rows.length - space + 1} more`)]];
}

function headerRow(view: BuildView, { now, frame }: LiveOptions): Row {
  const done = view.tasks.filter((task) => task.status === "completed").length;
  const spent = budgetText(view);
  return [
    segment("accent", spin(frame)),
    segment("strong", ` ${view.project}`),
    segment("dim", `  ${view.build.id}`),
    segment("plain", `  ${done}/${count(view.tasks.length, "task")}  ${clock(elapsedMs(view, now))}  `),
    segment("accent", phaseOf(view)),
    segment("dim", spent === "" ? "" : `  ${spent}`),
  ];
}

function pastRows(view: BuildView, current: WaveView): Row[] {
  return view.waves
    .filter((wave) => wave.id !== current.id)
    .map((wave) => [
      segment("plain", "  "),
      glyphOf(wave.status),
      segment("plain", ` wave ${wave.number}  `),
      segment("dim", wave.taskKeys.join(" ")),
      segment("dim", wave.endedAt === null ? "" : `  ${duration(waveMs(wave, wave.endedAt))}`),
    ]);
}

function waveRows(view: BuildView, wave: WaveView, options: LiveOptions): Row[] {
  const running = ["running", "joining", "gating", "fixing"].includes(wave.status);
  const mark = running ? segment("accent", spin(options.frame)) : glyphOf(wave.status);
  const tasks = wave.taskKeys.map((key) => view.tasks.find((task) => task.key === key)!);
  const width = nameWidth(tasks);
  return [
    [segment("plain", "  "), mark, segment("strong", ` wave ${wave.number}`)],
    ...tasks.map((task) => taskRow(view, wave, task, width, options)),
    gatesRow(view, wave, options),
  ];
}

const nameWidth = (tasks: readonly TaskView[]): number =>
  Math.min(32, Math.max(...tasks.map((task) => task.key.length)));

function taskRow(view: BuildView, wave: WaveView, task: TaskView, width: number, options: LiveOptions): Row {
  const inWave = task.waveNumber === wave.number;
  const name = [segment("plain", ` ${task.key.padEnd(width)}  `), segment("dim", `${task.agent.padEnd(14)}  `)];
  const indent = segment("plain", "      ");
  if (!inWave || task.status === "pending") {
    return [indent, segment("warn", "↺"), ...name, segment("warn", "conflicted: runs again in a later wave")];
  }
  const attempt = liveAttempt(view, task.key);
  const started = attempt?.startedAt ?? null;
  if (attempt !== null && started !== null) {
    const tried = attempt.number > 1 ? `  attempt ${attempt.number}` : "";
    const time = clock(options.now.getTime() - started.getTime());
    const spent = spentText(spentBy(view, [attempt]));
    const facts = [segment("plain", time), segment("warn", tried), segment("dim", spent === "" ? "" : `  ${spent}`)];
    return [indent, segment("accent", spin(options.frame)), ...name, ...facts];
  }
  const waiting = waitsFor(view, task);
  const took = `${tookOf(wave, task)}${andSpent(spentByTask(view, task.key, [wave]))}`;
  const rest =
    waiting === null ? segment("dim", took) : segment("dim", `${took === "" ? "" : `${took}, `}waits for ${waiting}`);
  return [indent, glyphOf(task.status), ...name, rest];
}

function tookOf(wave: WaveView, task: TaskView): string {
  const last = wave.attempts.findLast((attempt) => attempt.taskKey === task.key && attempt.endedAt !== null);
  if (last?.endedAt == null || last.startedAt === null) return "";
  return duration(last.endedAt.getTime() - last.startedAt.getTime());
}

function gatesRow(view: BuildView, wave: WaveView, { frame, now }: LiveOptions): Row {
  const row: Segment[] = [segment("plain", "      "), segment("dim", "gates  ")];
  for (const name of gateNames) {
    const run = wave.gates.findLast(
      (gate) => gate.gate === name && (wave.headSha === null || gate.sha === wave.headSha),
    );
    const atWork = run !== undefined && run.status !== "finished";
    const mark = atWork ? segment("accent", spin(frame)) : glyphOf(run?.verdict ?? "");
    const time = atWork ? ` ${clock(now.getTime() - run.createdAt.getTime())}` : "";
    row.push(mark, segment("plain", ` ${name}${time}   `));
  }
  const fix = wave.attempts.find((attempt) => attempt.kind === "fix" && attempt.status !== "settled");
  if (fix !== undefined) {
    const time = clock(now.getTime() - (fix.startedAt ?? fix.createdAt).getTime());
    const round = `fix ${wave.fixRounds} of ${view.build.plan.gates.maxFixRounds}`;
    row.push(segment("accent", spin(frame)), segment("warn", ` ${round} ${time}`));
  }
  return row;
}

/** Tasks of later waves, with what each waits for. */
function laterRows(view: BuildView): Row[] {
  const wave = currentWave(view);
  const later = view.tasks.filter(
    (task) => (task.status === "pending" || task.status === "skipped") && !(wave?.taskKeys.includes(task.key) ?? false),
  );
  if (later.length === 0) return [];
  const width = nameWidth(later);
  return later.map((task) => {
    const waiting = waitsFor(view, task);
    const rest = waiting === null ? task.status : `waits for ${waiting}`;
    const name = ` ${task.key.padEnd(width)}  ${task.agent.padEnd(14)}  ${rest}`;
    return [segment("plain", "      "), glyphOf(task.status), segment("dim", name)];
  });
}
