import type { BuildView, TaskView, WaveView } from "../../coordinator/build/read-build.ts";
import { roomRemedy } from "../../domain/sandbox.ts";
import { count, duration, fetchText, oneLine, shortSha } from "../format.ts";
import type { Hints } from "../hints.ts";
import { gateLines } from "./gate-lines.ts";
import type { Line } from "./line.ts";
import { briefText, madePlanLines, planChoices, waveOfWaitingPlan } from "./plan-lines.ts";
import { openQuestionLines, openQuestionsJson } from "./question-lines.ts";
import { elapsedText, waveMs, waveResults } from "./result.ts";
import { andSpent, budgetText, spentBy, spentByBuild, spentByTask, spentInWave, spentJson } from "./spending.ts";
import { failureLines, nextLines } from "./summary.ts";
import { liveAttempt, phaseOf, waitsFor } from "./waiting.ts";

export interface StatusOptions {
  /** The build is not over, and no live process drives it. */
  readonly interrupted: boolean;
  readonly repository: string;
  /** The file of the plan that waits for approval, if there is one. */
  readonly planFile?: string | null;
  /** A `serve` on this data directory shows previews. */
  readonly isServed?: boolean;
  readonly hints: Hints;
  readonly now: Date;
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
  const isEnforced = build.network === "open" || build.sandboxDriver !== "local-unsafe";
  const network = `network ${build.network}${isEnforced ? "" : " (not enforced)"}`;
  const facts = `${tasks}, ${elapsedText(view, now)}, sandbox ${build.sandboxDriver}, ${network}`;
  const lines: Line[] = [{ tone: "plain", text: `  ${facts}` }];
  const spent = budgetText(view);
  if (spent !== "") lines.push({ tone: "plain", text: `  spent on models: ${spent}` });
  if (build.reason !== null) lines.push({ tone: "bad", text: `  ${oneLine(build.reason)}` });
  if (view.sandboxTrouble !== null)
    lines.push({ tone: "warn", text: `  its sandbox starts no further jobs: ${oneLine(view.sandboxTrouble)}` });
  if (interrupted) {
    const text = `  interrupted: no process drives it. To continue: ${hints.command(`resume ${build.id}`)}`;
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
    ...wave.taskKeys.map((key) => taskLine(view, wave, view.tasks.find((task) => task.key === key)!)),
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
  const waiting = waitsFor(view, task);
  const waits = waiting === null ? "" : `, waits for ${waiting}`;
  const since = liveAttempt(view, task.key)?.startedAt;
  const time = since == null ? "" : `, for ${duration(Date.now() - since.getTime())}`;
  const spent = andSpent(spentByTask(view, task.key, [wave]));
  const why = task.reason === null || task.status === "completed" ? "" : `: ${oneLine(task.reason)}`;
  const tone = task.status === "completed" ? "good" : task.status === "failed" ? "bad" : "plain";
  return { tone, text: `  ${task.key} (${task.agent}): ${task.status}${time}${tried}${spent}${waits}${why}` };
}

/** Why a task of this wave did not finish in it. */
function leftBehind(wave: WaveView, task: TaskView): string {
  if (task.conflicts.some((conflict) => conflict.waveNumber === wave.number)) {
    return "conflicted, runs again in a later wave";
  }
  if (wave.status === "cancelled" && wave.reason?.startsWith("rolled back") === true)
    return "rolled back with its wave";
  // A wave starts no further tasks once one has failed for good.
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
      const waiting = over ? null : waitsFor(view, task);
      return {
        tone: "dim",
        text: `  ${task.key} (${task.agent}): ${task.status}${waiting === null ? "" : `, waits for ${waiting}`}`,
      };
    }),
  ];
}

function previewLine(view: BuildView, { isServed = false }: StatusOptions): Line {
  const preview = view.preview!;
  const why = preview.reason === null ? "" : `: ${oneLine(preview.reason)}`;
  const tone = preview.status === "dead" ? "bad" : "plain";
  const url = isServed ? previewUrl(view) : null;
  const at = url === null ? "" : `  ${url}${preview.status === "asleep" ? " (the next request starts it)" : ""}`;
  return { tone, text: `preview of wave ${preview.waveNumber}: ${preview.status}${why}${at}` };
}

/** The address at which `serve` shows the preview; null if it does not show this one. */
function previewUrl({ preview, build }: BuildView): string | null {
  if (preview === null || preview.servedPort === null || preview.status === "stopped") return null;
  return `http://127.0.0.1:${preview.servedPort}${build.plan.preview?.healthPath ?? "/"}`;
}

function whereLines(view: BuildView, { repository, hints }: StatusOptions): Line[] {
  const { build } = view;
  const lines: Line[] = [];
  if (build.headSha !== null) {
    lines.push({ tone: "plain", text: `head: ${build.headSha}` });
    lines.push({ tone: "plain", text: fetchText(repository, build.plan.name) });
  }
  // A running build needs nothing; the choices for a drafted plan are above.
  const isStill = ["failed", "cancelled", "waiting"].includes(build.status);
  if (isStill && waveOfWaitingPlan(view) === null) lines.push(...nextLines(view, hints));
  return lines;
}

function attemptsOf(view: BuildView, { key }: TaskView) {
  return view.waves.flatMap((wave) =>
    wave.attempts
      .filter((attempt) => attempt.taskKey === key)
      .map((attempt) => ({
        number: attempt.number,
        wave: wave.number,
        status: attempt.status,
        outcome: attempt.outcome,
        spent: spentJson(spentBy(view, [attempt])),
      })),
  );
}

/** The same as JSON. */
export function statusJson(
  view: BuildView,
  { interrupted, isServed = false, repository, planFile, now }: StatusOptions,
): Record<string, unknown> {
  const { id, status, reason, createdAt, startedAt, endedAt, sandboxDriver, network, headSha, plan } = view.build;
  return {
    buildId: id,
    project: view.project,
    ...(view.build.brief === null ? {} : { brief: view.build.brief.text }),
    ...(planFile == null ? {} : { planFile }),
    status,
    reason,
    interrupted,
    phase: phaseOf(view),
    questions: openQuestionsJson(view, now),
    waitsForSandbox: view.waitsForSandbox === null ? null : { reason: view.waitsForSandbox, remedy: roomRemedy },
    sandboxTrouble: view.sandboxTrouble,
    createdAt,
    startedAt,
    endedAt,
    sandbox: sandboxDriver,
    network,
    spent: spentJson(spentByBuild(view)),
    budget: { tokens: plan.limits.budget.tokens, usd: plan.limits.budget.usd },
    waves: waveResults(view).map((result, index) => ({
      ...result,
      findings: view.waves[index]!.gates.flatMap((gate) => (gate.verdict === "passed" ? [] : gate.findings)).map(
        ({ rule, severity, message, file, line }) => ({ rule, severity, message, file, line }),
      ),
    })),
    tasks: view.tasks.map((task) => ({
      id: task.key,
      agent: task.agent,
      status: task.status,
      wave: task.waveNumber,
      attempts: task.attempts,
      eachAttempt: attemptsOf(view, task),
      spent: spentJson(spentByTask(view, task.key)),
      reason: task.reason,
      waitsFor: endedAt === null ? waitsFor(view, task) : null,
    })),
    preview: previewJson(view, isServed),
    repository,
    head: headSha,
  };
}

function previewJson(view: BuildView, isServed: boolean) {
  const { preview } = view;
  if (preview === null) return null;
  return { wave: preview.waveNumber, status: preview.status, url: isServed ? previewUrl(view) : null };
}
