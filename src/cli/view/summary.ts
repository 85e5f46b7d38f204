import { waveOfWaitingPlan } from "../../api/waiting.ts";
import type { AttemptView, BuildView, GateView, WaveView } from "../../coordinator/build/build-view.ts";
import { itemAt, present } from "../../domain/known.ts";
import { makesPlan } from "../../domain/plan/brief.ts";
import { agentSpecFor, hasFixer } from "../../domain/plan/plan.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { count, fetchText, harmless, oneLine } from "../output/format.ts";
import type { Hints } from "../output/hints.ts";
import { elapsedText } from "./elapsed.ts";
import { addedCheckLines, evidenceText, findingLines } from "./gate-lines.ts";
import type { Line } from "./line.ts";
import { attemptName } from "./narrate.ts";
import { madePlanLines, planChoices } from "./plan-lines.ts";
import { pullRequestLines } from "./pull-request-lines.ts";
import { budgetText } from "./spending.ts";

const branchOf = (ref: string): string => ref.replace(/^refs\/heads\//, "");
const blank: Line = { tone: "plain", text: "" };

export interface SummaryOptions {
  /** Where git can fetch the work from; null for a build of a server. */
  readonly authority: string | null;
  /** The file of the plan that waits for approval, if there is one. */
  readonly planFile?: string | null;
  /** About the branch that has the result, if it was delivered. */
  readonly delivered?: readonly Line[] | null;
  readonly hints: Hints;
  readonly now: Date;
}

/** The last lines of a build: why it failed, where its work is, and what to type next. */
export function summary(view: BuildView, options: SummaryOptions): Line[] {
  const { build } = view;
  const lines: Line[] = [blank];
  const planned = waveOfWaitingPlan(view);
  if (planned !== null && options.planFile != null) {
    lines.push(...madePlanLines(view, planned, options.planFile), blank, statusLine(view, options.now));
    return [...lines, ...planChoices(view, options.planFile, options.hints)];
  }
  if (build.status === "failed") lines.push(...failureLines(view), blank);
  lines.push(statusLine(view, options.now));
  const spent = budgetText(view);
  if (spent !== "") lines.push({ tone: "plain", text: `spent on models: ${spent}` });
  if (build.headSha !== null) {
    lines.push({ tone: "plain", text: `head: ${build.headSha}` });
    lines.push(...(options.delivered ?? resultLines(view, options)));
  }
  lines.push(...pullRequestLines(view));
  if (build.status === "cancelled" || build.status === "failed") lines.push(...keptLines(view, options));
  lines.push(...nextLines(view, options.hints));
  return lines;
}

/** How to get the result; a completed build of a person's repository delivers it there. */
export function resultLines(
  { build }: BuildView,
  { authority, hints }: Pick<SummaryOptions, "authority" | "hints">,
): Line[] {
  if (build.plan.source.kind !== "repository" && authority !== null) {
    return [{ tone: "plain", text: fetchText(authority, build.plan.name) }];
  }
  if (build.headSha === build.baseSha) return [];
  const what = build.status === "completed" ? "put it on a branch" : "put what has passed so far on a branch";
  return [{ tone: "plain", text: `${what}: ${hints.command(`deliver ${build.id}`)}` }];
}

function statusLine(view: BuildView, now: Date): Line {
  const { build } = view;
  const done = view.tasks.filter((task) => task.status === "completed").length;
  const waves = count(view.waves.filter((wave) => wave.status === "passed").length, "wave");
  const facts = `${waves} passed, ${done} of ${count(view.tasks.length, "task")} completed, ${elapsedText(view, now)}`;
  const why = build.status === "failed" && build.reason !== null ? ` (${oneLine(build.reason)})` : "";
  const tone = build.status === "completed" ? "good" : build.status === "failed" ? "bad" : "warn";
  return { tone, text: `build ${build.id} ${build.status}${why}: ${facts}` };
}

/** The commands to type next; none if the build completed. */
export function nextLines(view: BuildView, hints: Hints): Line[] {
  const { build } = view;
  const next = (words: string): Line[] => [{ tone: "strong", text: `next: ${hints.command(words)}` }];
  if (build.status === "failed" || build.status === "cancelled") {
    if (isRejectedForGood(view)) return rejectedLines(view, hints);
    return [...signInLines(view, hints), ...next(`retry ${build.id}`), ...planLines(view, hints)];
  }
  if (build.status === "completed") return [];
  if (build.status !== "waiting" || view.waves.at(-1)?.status !== "waiting") return next(`resume ${build.id}`);
  const reject = hints.command(`reject ${build.id} --reason "…"`);
  return [
    {
      tone: "plain",
      text: `to review it: ${hints.command(`diff ${build.id} --wave ${itemAt(view.waves, -1).number}`)}`,
    },
    {
      tone: "strong",
      text: `next: ${hints.command(`approve ${build.id} --resume`)}, or ${reject}`,
    },
  ];
}

/** Whether a person rejected the wave's tree, and there is no fixer that would change it. */
function isRejectedForGood({ build, waves }: BuildView): boolean {
  const wave = waves.at(-1);
  if (wave?.status !== "blocked" || wave.rejectedSha === null || wave.rejectedSha !== wave.headSha) return false;
  return !hasFixer(build.plan) && !wave.taskKeys.some((key) => makesPlan(build, key));
}

/** A plain retry is refused, because it would offer the same tree again. */
function rejectedLines({ build, waves }: BuildView, hints: Hints): Line[] {
  const branch = `wavesmith/${build.id}/wave-${itemAt(waves, -1).number}`;
  return [
    { tone: "strong", text: `next: fix it and push to ${branch}, then ${hints.command(`retry ${build.id}`)}` },
    {
      tone: "strong",
      text: `  or, after adding agents.fixer to the plan: ${hints.command(`resume ${build.id} --plan EDITED`)}`,
    },
    {
      tone: "strong",
      text: `  or, to review the same tree again: ${hints.command(`retry ${build.id} --unchanged`)}`,
    },
  ];
}

/** A retry with the same key would fail again. */
function signInLines({ waves }: BuildView, hints: Hints): Line[] {
  const isRefused = waves.at(-1)?.attempts.some(({ reason }) => reason?.startsWith("the agent ended: not signed in"));
  if (isRefused !== true) return [];
  const text = `First set a key for the model's provider. ${hints.command("agents")} shows which setting it reads.`;
  return [{ tone: "strong", text }];
}

/** Says what to change in the plan if a retry alone would end at the same limit or gate. */
function planLines(view: BuildView, hints: Hints): Line[] {
  const wave = view.waves.at(-1);
  const gate = wave === undefined ? null : blockingGate(wave);
  const has = (rule: string): boolean => gate?.findings.some((finding) => finding.rule === rule) ?? false;
  const edited = hints.command(`resume ${view.build.id} --plan EDITED`);
  if (view.tasks.some((task) => task.status === "failed" && makesPlan(view.build, task.key))) {
    return [
      {
        tone: "strong",
        text: `  or, with your own plan: ${hints.command(`resume ${view.build.id} --plan FILE`)}`,
      },
    ];
  }
  if (wave?.attempts.some(({ outcome }) => outcome === "over-budget")) {
    return [{ tone: "strong", text: `  or, after raising limits.budget in the plan: ${edited}` }];
  }
  if (wave?.attempts.some(({ outcome, reason }) => outcome === "failed" && isOfSetup(reason))) {
    return [{ tone: "strong", text: `  or, after changing setup in the plan: ${edited}` }];
  }
  if (has("too-few-tests")) {
    const ways =
      gate?.evidence?.tests == null
        ? "let the command print TAP or write a JUnit report, or set gates.testing.minTests: 0"
        : "lower gates.testing.minTests, or change its command or the task that writes the tests";
    return [{ tone: "strong", text: `  or, after editing the plan (${ways}): ${edited}` }];
  }
  if (has("added-check")) {
    const way = `remove gates.${present(gate, "the gate").gate}.agent to rely on the plan's own checks`;
    return [{ tone: "strong", text: `  or, after editing the plan (${way}): ${edited}` }];
  }
  if (!has("command-not-found")) return [];
  return [{ tone: "strong", text: `  or, after changing the plan to a command that exists: ${edited}` }];
}

/** Branches whose work is not in main. */
function keptLines(view: BuildView, { authority, hints }: SummaryOptions): Line[] {
  const open = view.waves.at(-1);
  if (open === undefined || open.status === "passed") return [];
  const branches = open.attempts.flatMap((attempt) => (attempt.commitSha === null ? [] : [branchOf(attempt.ref)]));
  if (open.headSha !== null) branches.push(`wavesmith/${view.build.id}/wave-${open.number}`);
  if (branches.length === 0) return [];
  const shown = branches.slice(-12).map((branch): Line => ({ tone: "plain", text: `  ${branch}` }));
  const way = authority === null ? lookText(open, view, hints) : fetchOne(authority, itemAt(branches, -1));
  return [
    {
      tone: "plain",
      text: `work that is not in main is kept on ${count(branches.length, "branch").replace("branchs", "branches")}:`,
    },
    ...shown,
    { tone: "plain", text: way },
  ];
}

const fetchOne = (authority: string, branch: string): string =>
  `fetch one: git fetch ${shellWord(authority)} ${shellWord(branch)}`;

/** Says how to see the work of an open wave, or of its last attempt, on a server. */
function lookText({ number, headSha, attempts }: WaveView, { build }: BuildView, hints: Hints): string {
  const task = attempts.findLast(({ commitSha, taskKey }) => commitSha !== null && taskKey !== null)?.taskKey;
  const which = headSha !== null || task == null ? `--wave ${number}` : `--task ${task}`;
  return `see one: ${hints.command(`diff ${build.id} ${which}`)}`;
}

/** The task or gate that failed, its command, and the end of its output with files and lines. */
export function failureLines(view: BuildView): Line[] {
  const wave = view.waves.at(-1);
  if (wave === undefined) return [];
  const failed = view.tasks.filter((task) => task.status === "failed");
  const lines = failed.slice(0, 3).flatMap((task) => {
    const attempt = view.waves
      .flatMap((candidate) => candidate.attempts)
      .findLast((candidate) => candidate.taskKey === task.key && candidate.outcome !== "succeeded");
    return attempt === undefined ? [] : attemptFailure(view, wave, attempt);
  });
  const gate = blockingGate(wave);
  if (gate !== null) lines.push(...gateFailure(gate, wave));
  const fix = wave.attempts.findLast((attempt) => attempt.kind !== "task" && attempt.status === "settled");
  if (wave.status === "blocked" && fix !== undefined && fix.outcome !== "succeeded") {
    lines.push(...attemptFailure(view, wave, fix));
  }
  if (wave.status === "blocked" && lines.length === 0 && wave.reason !== null) {
    lines.push({ tone: "bad", text: `wave ${wave.number} is blocked: ${oneLine(wave.reason)}` });
  }
  return lines;
}

/** The gate whose verdict blocked the wave. */
function blockingGate(wave: WaveView): GateView | null {
  if (wave.status !== "blocked") return null;
  const bad = wave.gates.filter((gate) => gate.verdict === "failed" || gate.verdict === "inconclusive");
  return bad.at(-1) ?? null;
}

function gateFailure(gate: GateView, wave: WaveView): Line[] {
  const { evidence } = gate;
  const why = gate.reason === null ? "" : `: ${oneLine(gate.reason)}`;
  return [
    { tone: "bad", text: `gate ${gate.gate} of wave ${wave.number} ${gate.verdict}${why}` },
    ...(evidence?.command ? [{ tone: "plain" as const, text: `  command: ${firstLines(evidence.command)}` }] : []),
    { tone: "plain", text: `  ${evidenceText(evidence === null ? null : { ...evidence, command: null })}` },
    ...tailLines(evidence?.outputTail ?? ""),
    ...addedCheckLines(evidence?.added, "  "),
    ...findingLines(gate.findings, "  "),
  ];
}

function attemptFailure(view: BuildView, wave: WaveView, attempt: AttemptView): Line[] {
  const name = attemptName(wave, attempt);
  const command = commandOf(view, attempt);
  const tail = attempt.outputTail ?? "";
  const what = attempt.taskKey === null ? name : `task ${name}`;
  return [
    ...reasonLines(`${what} ${attempt.outcome}: `, attempt.reason ?? "no reason was given"),
    ...(command === null ? [] : [{ tone: "plain" as const, text: `  command: ${command}` }]),
    ...tailLines(tail),
    ...placesIn(tail).map((place): Line => ({ tone: "bad", text: `  at ${place}` })),
  ];
}

/** Shows a plan's faults one per line, and any other reason on one line. */
function reasonLines(what: string, reason: string): Line[] {
  const faults = harmless(reason).split("\n");
  if (!itemAt(faults, 0).startsWith("its plan has ")) return [{ tone: "bad", text: `${what}${oneLine(reason)}` }];
  return faults.map((line, index) => ({ tone: "bad", text: index === 0 ? `${what}${line}` : `  ${line}` }));
}

const isOfSetup = (reason: string | null): boolean => /^setup\b/.test(reason ?? "");

/** The command of the stage that failed: setup, a service, a check or the task's own. */
function commandOf(view: BuildView, attempt: AttemptView): string | null {
  const { setup, services } = view.build.plan;
  const reason = attempt.reason ?? "";
  if (setup !== null && isOfSetup(reason)) return firstLines(setup.run);
  const service = /^service (\S+) /.exec(reason)?.[1];
  if (service !== undefined && Object.hasOwn(services, service))
    return firstLines(present(services[service], service).command);
  const task = view.tasks.find((candidate) => candidate.key === attempt.taskKey);
  const check = /^check (\d+)\b/.exec(reason)?.[1];
  const acceptance = check === undefined ? undefined : task?.definition.acceptance[Number(check) - 1];
  const command =
    acceptance?.check ?? task?.definition.run ?? agentSpecFor(view.build.plan, attempt.role)?.command ?? null;
  return command === null ? null : firstLines(command);
}

function firstLines(command: string): string {
  const lines = harmless(command).trimEnd().split("\n");
  const shown = lines.slice(0, 6).join("\n    ");
  return lines.length > 6 ? `${shown}\n    … (${lines.length - 6} more lines)` : shown;
}

function tailLines(output: string): Line[] {
  const text = harmless(output).trimEnd();
  if (text === "") return [{ tone: "dim", text: "  (it printed nothing)" }];
  const lines = text.split("\n").slice(-20);
  return lines.map((line) => ({ tone: "dim", text: `  │ ${line}` }));
}

const placePatterns = [
  /^\s*File "([^"\n]+)", line (\d+)/gm,
  /(?:^|[\s(])(?:file:\/\/)?((?:\/|\.{1,2}\/)?[\w@.+-]+(?:\/[\w@.+-]+)*\.[A-Za-z]\w*):(\d+)(?::\d+)?/gm,
];

/** Returns at most three `file:line` places that an output names, leaving out those of tools. */
export function placesIn(output: string): string[] {
  const text = harmless(output);
  const found = placePatterns.flatMap((pattern) =>
    [...text.matchAll(pattern)].map((match) => `${match[1]}:${match[2]}`),
  );
  const ours = found.filter((place) => !/node:internal|node_modules|\/usr\/|site-packages/.test(place));
  return [...new Set(ours.map((place) => place.replace(/^.*\/trees\/[^/]+\/[^/]+\//, "")))].slice(0, 3);
}
