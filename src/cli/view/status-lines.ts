import { waveMs } from "../../api/build-result.ts";
import type { StatusFacts } from "../../api/build-status.ts";
import { spentByTask, spentInWave } from "../../api/spending.ts";
import { getTask } from "../../api/view-index.ts";
import { liveAttempt, phaseOf, waitText, waveOfWaitingPlan } from "../../api/waiting.ts";
import type { BuildView, TaskView, WaveView } from "../../coordinator/build/build-view.ts";
import { present } from "../../domain/known.ts";
import { describeWall, roomRemedy } from "../../domain/sandbox/sandbox.ts";
import { count, duration, oneLine, shortSha } from "../output/format.ts";
import type { Hints } from "../output/hints.ts";
import { traitsOf } from "../parts.ts";
import { elapsedText } from "./elapsed.ts";
import { gateLines } from "./gate-lines.ts";
import type { Line } from "./line.ts";
import { commentLines, messageLines } from "./message-lines.ts";
import { briefText, madePlanLines, planChoices } from "./plan-lines.ts";
import { pullRequestLines } from "./pull-request-lines.ts";
import { openQuestionLines } from "./question-lines.ts";
import { andSpent, budgetText } from "./spending.ts";
import { failureLines, nextLines, resultLines } from "./summary.ts";

export interface StatusOptions extends StatusFacts {
  /** Where git can fetch the work from; null for a build of a server. */
  readonly authority: string | null;
  readonly hints: Hints;
  /** About the branch that has the result, if it was delivered. */
  readonly delivered?: readonly Line[] | null;
}

/** Lines for the current state of a build. */
export function statusLines(view: BuildView, options: StatusOptions): Line[] {
  const { build } = view;
  return [
    { tone: "strong", text: `build ${build.id}  project ${view.project}  ${build.status}` },
    ...briefLines(view),
    ...stateLines(view, options),
    ...openQuestionLines(view, options.now, options.hints.command),
    ...view.waves.flatMap((wave) => waveLines(view, wave, options.now)),
    ...restLines(view),
    ...commentLines(view),
    ...(view.preview === null ? [] : [previewLine(view, options)]),
    ...(build.status === "failed" ? [{ tone: "plain" as const, text: "" }, ...failureLines(view)] : []),
    ...waitingPlanLines(view, options),
    ...whereLines(view, options),
  ];
}

const briefLines = ({ build }: BuildView): Line[] =>
  build.brief === null ? [] : [{ tone: "plain", text: `  brief: ${briefText(build.brief.text)}` }];

function waitingPlanLines(view: BuildView, { planFile, hints }: StatusOptions): Line[] {
  const wave = waveOfWaitingPlan(view);
  if (wave === null || planFile == null) return [];
  return [
    { tone: "plain", text: "" },
    ...madePlanLines(view, wave, planFile),
    ...planChoices(view, planFile, hints),
    { tone: "plain", text: "" },
  ];
}

function stateLines(view: BuildView, { interrupted, hints, now }: StatusOptions): Line[] {
  const { build } = view;
  const done = view.tasks.filter((task) => task.status === "completed").length;
  const tasks = `${done} of ${count(view.tasks.length, "task")} completed`;
  const isEnforced = build.network === "open" || traitsOf(build.sandboxDriver).isolation !== "none";
  const network = `network ${build.network}${isEnforced ? "" : " (not enforced)"}`;
  const wall = view.sandboxWall === null ? "" : ` (${describeWall(view.sandboxWall)})`;
  const facts = `${tasks}, ${elapsedText(view, now)}, sandbox ${build.sandboxDriver}${wall}, ${network}`;
  const lines: Line[] = [{ tone: "plain", text: `  ${facts}` }];
  const spent = budgetText(view);
  if (spent !== "") lines.push({ tone: "plain", text: `  spent on models: ${spent}` });
  if (build.reason !== null) lines.push({ tone: "bad", text: `  ${oneLine(build.reason)}` });
  if (view.sandboxTrouble !== null)
    lines.push({ tone: "warn", text: `  its sandbox accepts no more jobs: ${oneLine(view.sandboxTrouble)}` });
  if (interrupted) {
    const text = `  interrupted: no process is driving it. To continue: ${hints.command(`resume ${build.id}`)}`;
    lines.push({ tone: "warn", text });
  } else if (build.endedAt === null) lines.push({ tone: "accent", text: `  ${phaseOf(view)}` });
  if (view.waitsForSandbox !== null) lines.push({ tone: "warn", text: `  ${roomRemedy}` });
  return lines;
}

function waveLines(view: BuildView, wave: WaveView, now: Date): Line[] {
  const took = duration(waveMs(wave, now));
  const sha = wave.headSha === null ? "" : ` at ${shortSha(wave.headSha)}`;
  const fixes = wave.fixRounds === 0 ? "" : `, ${count(wave.fixRounds, "fix round")}`;
  const why = wave.reason === null ? "" : `: ${oneLine(wave.reason)}`;
  const tone =
    wave.status === "passed" ? "good" : wave.status === "blocked" || wave.status === "failed" ? "bad" : "accent";
  return [
    {
      tone,
      text: `wave ${wave.number}: ${wave.status}${sha}, ${took}${fixes}${andSpent(spentInWave(view, wave))}${why}`,
    },
    ...wave.taskKeys.flatMap((key) => [
      taskLine(view, wave, getTask(view, key)),
      ...(getTask(view, key).waveNumber === wave.number ? messageLines(view, key) : []),
    ]),
    ...wave.gates.filter((gate) => gate.status === "finished").flatMap((gate) => gateLines(wave.number, gate)),
  ];
}

function taskLine(view: BuildView, wave: WaveView, task: TaskView): Line {
  const inWave = task.waveNumber === wave.number;
  if (!inWave || task.status === "pending") {
    return { tone: "warn", text: `  ${task.key} (${task.agent}): ${leftBehind(wave, task)}` };
  }
  const attempts = wave.attempts.filter((attempt) => attempt.taskKey === task.key).length;
  const tried = attempts > 1 ? `, ${attempts} attempts` : "";
  const waiting = waitText(view, task);
  const waits = waiting === null ? "" : `, ${waiting}`;
  const since = liveAttempt(view, task.key)?.startedAt;
  const setup = liveAttempt(view, task.key)?.inSetup === true ? ", setup" : "";
  const time = since == null ? "" : `${setup}, for ${duration(Date.now() - since.getTime())}`;
  const spent = andSpent(spentByTask(view, task.key, wave));
  const why = task.reason === null || task.status === "completed" ? "" : `: ${oneLine(task.reason)}`;
  const tone = task.status === "completed" ? "good" : task.status === "failed" ? "bad" : "plain";
  return { tone, text: `  ${task.key} (${task.agent}): ${task.status}${time}${tried}${spent}${waits}${why}` };
}

/** Says why a task of this wave did not finish in it. */
function leftBehind(wave: WaveView, task: TaskView): string {
  if (task.conflicts.some((conflict) => conflict.waveNumber === wave.number)) {
    return "conflicted, runs again in a later wave";
  }
  if (wave.status === "cancelled" && wave.reason?.startsWith("rolled back") === true)
    return "rolled back with its wave";
  // A wave starts no more tasks once one has failed for good.
  const wasStarted = wave.attempts.some((attempt) => attempt.taskKey === task.key);
  return wasStarted ? "not joined in this wave" : "not started in this wave";
}

/** Tasks that are in no wave yet, or never were. */
function restLines(view: BuildView): Line[] {
  const rest = view.tasks.filter((task) => !view.waves.some((wave) => wave.taskKeys.includes(task.key)));
  if (rest.length === 0) return [];
  const over = view.build.endedAt !== null;
  return [
    { tone: "plain", text: over ? "not begun:" : "to come:" },
    ...rest.map((task): Line => {
      const waiting = over ? null : waitText(view, task);
      return {
        tone: "dim",
        text: `  ${task.key} (${task.agent}): ${task.status}${waiting === null ? "" : `, ${waiting}`}`,
      };
    }),
  ];
}

function previewLine(view: BuildView, { isServed = false }: StatusOptions): Line {
  const preview = present(view.preview, "view.preview");
  const why = preview.reason === null ? "" : `: ${oneLine(preview.reason)}`;
  const tone = preview.status === "dead" ? "bad" : "plain";
  const url = isServed ? preview.url : null;
  const at = url === null ? "" : `  ${url}${preview.status === "asleep" ? " (the next request starts it)" : ""}`;
  return { tone, text: `preview of wave ${preview.waveNumber}: ${preview.status}${why}${at}` };
}

function whereLines(view: BuildView, { authority, hints, delivered }: StatusOptions): Line[] {
  const { build } = view;
  const lines: Line[] = [];
  if (build.headSha !== null) {
    lines.push({ tone: "plain", text: `head: ${build.headSha}` });
    lines.push(...(delivered ?? resultLines(view, { authority, hints })));
  }
  lines.push(...pullRequestLines(view));
  // A running build needs nothing; the choices for a drafted plan are above.
  const isStill = ["failed", "cancelled", "waiting"].includes(build.status);
  if (isStill && waveOfWaitingPlan(view) === null) lines.push(...nextLines(view, hints));
  return lines;
}
