import { elapsedMs, waveMs } from "../../api/build-result.ts";
import { spentBy, spentByTask } from "../../api/spending.ts";
import { currentWave, liveAttempt, phaseOf, waitText } from "../../api/waiting.ts";
import type { BuildView, TaskView, WaveView } from "../../coordinator/build/build-view.ts";
import { getKnown, itemAt } from "../../domain/known.ts";
import { gateNames } from "../../domain/status.ts";
import { clock, count, duration, oneLine } from "../output/format.ts";
import type { Tone } from "../output/palette.ts";
import { questionRows } from "./question-lines.ts";
import { cutRow, plainText, type Row, type Segment, segment, widthOf } from "./segments.ts";
import { andSpent, budgetText, spentText } from "./spending.ts";

// Draws the live region of a terminal. Pure: a view, a size and a time give rows.

export interface LiveOptions {
  readonly rows: number;
  readonly columns: number;
  readonly now: Date;
  /** Counts frames to turn the spinner. */
  readonly frame: number;
  /** The typed answer to the open question. */
  readonly typed?: string;
}

const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
export const spin = (frame: number): string => itemAt(spinner, frame % spinner.length);

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

/**
 * Returns at most `rows` rows: header, passed waves, the current wave and later tasks. Where tasks
 * do not fit, those that fail, run or wait come first and the rest is counted.
 */
export function renderLive(view: BuildView, options: LiveOptions): Row[] {
  const wave = currentWave(view);
  const head = [[], headerRow(view, options), ...questionRows(view, options)];
  const later = laterTasks(view, wave);
  // Below a wave's tasks there is a row for later ones.
  const below = later.length === 0 ? 0 : 1;
  const current = wave === null ? [] : waveRows(view, wave, options, options.rows - head.length - below);
  const space = options.rows - head.length - current.length;
  if (space < 0) return [...head.slice(1), ...current].slice(0, Math.max(1, options.rows));
  const past = wave === null ? [] : pastRows(view, wave);
  const shownPast = past.slice(-Math.max(0, Math.min(past.length, space - Math.min(later.length, 4))));
  const rest = laterRows(view, later, space - shownPast.length, options);
  return [...head, ...(space === 0 ? [] : shownPast), ...current, ...rest].slice(0, options.rows);
}

/** On a narrow terminal the numbers come before the name's own details. */
function headerRow(view: BuildView, { now, frame, columns }: LiveOptions): Row {
  const spent = budgetText(view);
  return [
    segment("accent", spin(frame)),
    segment("strong", ` ${view.project}`),
    segment("dim", columns < narrow ? "" : `  ${view.build.id}`),
    segment("plain", `  ${countsText(view)}  ${clock(elapsedMs(view, now))}  `),
    segment("accent", phaseOf(view)),
    segment("dim", spent === "" ? "" : `  ${spent}`),
  ];
}

/** How many tasks have done their work, run and failed. */
function countsText(view: BuildView): string {
  const tasks = view.tasks.filter((task) => task.status !== "removed");
  const having = (...statuses: string[]) => tasks.filter((task) => statuses.includes(task.status)).length;
  const running = having("running");
  const failed = having("failed");
  return [
    `${having("completed", "joining")}/${count(tasks.length, "task")}`,
    ...(running === 0 ? [] : [`${running} running`]),
    ...(failed === 0 ? [] : [`${failed} failed`]),
  ].join(", ");
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

function waveRows(view: BuildView, wave: WaveView, options: LiveOptions, space: number): Row[] {
  const running = ["running", "joining", "gating", "fixing"].includes(wave.status);
  const mark = running ? segment("accent", spin(options.frame)) : glyphOf(wave.status);
  const title: Row = [segment("plain", "  "), mark, segment("strong", ` wave ${wave.number}`)];
  return [title, ...tasksOfWave(view, wave, options, Math.max(1, space - 2)), gatesRow(view, wave, options)];
}

function tasksOfWave(view: BuildView, wave: WaveView, options: LiveOptions, space: number): Row[] {
  const known = new Map(view.tasks.map((task) => [task.key, task]));
  const tasks = wave.taskKeys.map((key) => getKnown(known, key));
  const row = (task: TaskView, shape: Shape): Row => taskRow(view, wave, task, { ...options, ...shape });
  if (tasks.length <= space) return tasks.map((task) => row(task, shapeOf(tasks, options)));
  const urgent = [...tasks].sort((left, right) => rankOf(left) - rankOf(right));
  const beside = Math.max(1, Math.floor(options.columns / cellWidth));
  const shown = urgent.slice(0, (space - 1) * beside);
  const rest = urgent.slice(shown.length);
  const shape = shapeOf(shown, options, beside > 1);
  const cells = shown.map((task) => row(task, shape));
  return [...sideBySide(cells, beside), ...(rest.length === 0 ? [] : [collapsedRow(rest)])];
}

/** On a narrower terminal, details that are also shown elsewhere are left out. */
const narrow = 80;
/** The width of a column when tasks are shown side by side, because one list would be too long. */
const cellWidth = 66;

const ranks = ["failed", "running", "assigned", "pending", "skipped", "cancelled", "joining", "completed"];
const rankOf = ({ status }: TaskView): number => ranks.indexOf(status);

function sideBySide(rows: readonly Row[], beside: number): Row[] {
  if (beside === 1) return [...rows];
  return Array.from({ length: Math.ceil(rows.length / beside) }, (_, index) =>
    rows.slice(index * beside, (index + 1) * beside).flatMap((row): Row => {
      const cut = cutRow(row, cellWidth - 2);
      return [...cut, segment("plain", " ".repeat(cellWidth - widthOf(plainText(cut))))];
    }),
  );
}

const stateNames: Record<string, string> = {
  joining: "done",
  completed: "done",
  assigned: "waiting",
  pending: "waiting",
};

/** Counts the tasks that are not shown, by what became of them. */
function collapsedRow(tasks: readonly TaskView[]): Row {
  const counts = new Map<string, number>();
  for (const { status } of tasks) {
    const name = stateNames[status] ?? status;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const text = [...counts].map(([name, number]) => `${number} ${name}`).join(", ");
  return [segment("dim", `      … and ${text}`)];
}

/** How wide the columns of task rows are. */
interface Shape {
  readonly width: number;
  readonly roles: boolean;
}

function shapeOf(tasks: readonly TaskView[], { columns }: LiveOptions, isCell = false): Shape {
  const most = columns < narrow ? 20 : isCell ? 24 : 32;
  const width = Math.min(most, Math.max(0, ...tasks.map((task) => task.key.length)));
  return { width, roles: columns >= narrow };
}

function nameOf({ key, agent }: TaskView, { width, roles }: Shape): { name: string; role: string } {
  const name = key.length > width ? `${key.slice(0, width - 1)}…` : key.padEnd(width);
  return { name: ` ${name}  `, role: roles ? `${agent.padEnd(14)}  ` : "" };
}

function taskRow(view: BuildView, wave: WaveView, task: TaskView, options: LiveOptions & Shape): Row {
  const inWave = task.waveNumber === wave.number;
  const { name, role } = nameOf(task, options);
  const head = [segment("plain", name), segment("dim", role)];
  const indent = segment("plain", "      ");
  if (!inWave || task.status === "pending") {
    return [indent, segment("warn", "↺"), ...head, segment("warn", "conflicted: runs again in a later wave")];
  }
  const attempt = liveAttempt(view, task.key);
  const started = attempt?.startedAt ?? null;
  if (attempt !== null && started !== null) {
    const tried = attempt.number > 1 ? `  attempt ${attempt.number}` : "";
    const time = `${attempt.inSetup ? "setup " : ""}${clock(options.now.getTime() - started.getTime())}`;
    const spent = spentText(spentBy(view, [attempt]));
    const rest = [spent, oneLine(attempt.lastAction ?? "")].filter((text) => text !== "").join("  ");
    const facts = [segment("plain", time), segment("warn", tried), segment("dim", rest === "" ? "" : `  ${rest}`)];
    return [indent, segment("accent", spin(options.frame)), ...head, ...facts];
  }
  const took = `${tookOf(wave, task)}${andSpent(spentByTask(view, task.key, wave))}`;
  const rest = [took, waitText(view, task) ?? ""].filter((text) => text !== "").join(", ");
  return [indent, glyphOf(task.status), ...head, segment("dim", rest)];
}

function tookOf(wave: WaveView, task: TaskView): string {
  const last = wave.attempts.findLast((attempt) => attempt.taskKey === task.key && attempt.endedAt !== null);
  if (last?.endedAt == null || last.startedAt === null) return "";
  return duration(last.endedAt.getTime() - last.startedAt.getTime());
}

function gatesRow(view: BuildView, wave: WaveView, { frame, now }: LiveOptions): Row {
  const { gates } = view.build.plan;
  const used = gateNames.filter((name) => gates[name] !== false);
  const row: Segment[] = [segment("plain", "      "), segment("dim", used.length === 0 ? "gates are off" : "gates  ")];
  for (const name of used) {
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
    const round = `fix ${wave.fixRounds} of ${gates.maxFixRounds}`;
    row.push(segment("accent", spin(frame)), segment("warn", ` ${round} ${time}`));
  }
  return row;
}

/** The tasks of later waves. */
const laterTasks = (view: BuildView, wave: WaveView | null): TaskView[] => {
  const current = new Set(wave?.taskKeys);
  return view.tasks.filter(
    (task) => (task.status === "pending" || task.status === "skipped") && !current.has(task.key),
  );
};

/** Tasks of later waves, with what each waits for; those that do not fit are counted. */
function laterRows(view: BuildView, later: readonly TaskView[], space: number, options: LiveOptions): Row[] {
  if (later.length === 0 || space <= 0) return [];
  const shown = later.length <= space ? later : later.slice(0, space - 1);
  const shape = shapeOf(shown, options);
  const rows = shown.map((task) => {
    const { name, role } = nameOf(task, shape);
    const text = `${name}${role}${waitText(view, task) ?? task.status}`;
    return [segment("plain", "      "), glyphOf(task.status), segment("dim", text)];
  });
  const left = later.length - shown.length;
  return left === 0 ? rows : [...rows, [segment("dim", `      … and ${left} more in later waves`)]];
}
