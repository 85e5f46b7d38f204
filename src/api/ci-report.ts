import { stripVTControlCharacters } from "node:util";
import type { AttemptView, BuildView, GateView, TaskView, WaveView } from "../coordinator/build/build-view.ts";
import { elapsedMs } from "./build-result.ts";

// A build's report for a CI system: JUnit, which all of them read, and Markdown for a summary page.

interface TestCase {
  readonly group: string;
  readonly name: string;
  readonly durationMs: number;
  readonly result: "passed" | "failed" | "error" | "skipped";
  /** Why it did not pass. */
  readonly reason: string;
  /** The evidence, such as findings and the end of the output. */
  readonly details: string;
}

/**
 * Returns a build as JUnit XML: a suite for each wave, with a case for each task and for the last
 * run of each gate. A gate that judged nothing is skipped, and an inconclusive one is an error.
 */
export function junitText(view: BuildView): string {
  const suites = view.waves.map((wave) => suiteText(`wave ${wave.number}`, casesOf(view, wave)));
  const waiting = view.tasks.filter(({ waveNumber }) => waveNumber === null);
  if (waiting.length > 0)
    suites.push(
      suiteText(
        "no wave",
        waiting.map((task) => taskCase(view, task)),
      ),
    );
  const seconds = secondsText(elapsedMs(view, new Date()));
  const name = xmlText(`${view.project} (${view.build.id})`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="${name}" time="${seconds}">\n${suites.join("")}</testsuites>\n`;
}

/** Returns a build as Markdown: its status, its waves with their gates, and what failed. */
export function summaryText(view: BuildView): string {
  const { build, project, waves } = view;
  const rows = waves.map((wave) => {
    const gates = lastRuns(wave).map(({ gate, verdict }) => `${gate} ${verdict ?? "not finished"}`);
    return `| ${wave.number} | ${wave.status} | ${wave.taskKeys.length} | ${gates.join(", ")} |`;
  });
  const failed = waves
    .flatMap((wave) => casesOf(view, wave))
    .filter(({ result }) => result === "failed" || result === "error");
  const parts = [
    `### ${markdownText(project)}: build ${build.status}`,
    ...(build.reason === null ? [] : [markdownText(build.reason)]),
    ["| wave | status | tasks | gates |", "|---|---|---|---|", ...rows].join("\n"),
    ...failed.map(({ group, name, reason, details }) => {
      const what = `**${group}, ${markdownText(name)}**: ${markdownText(reason)}`;
      return details === "" ? what : `${what}\n\n${fenced(details)}`;
    }),
  ];
  return `${parts.join("\n\n")}\n`;
}

function fenced(text: string): string {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  return `${fence}\n${text}\n${fence}`;
}

const casesOf = (view: BuildView, wave: WaveView): TestCase[] => [
  ...view.tasks.filter(({ waveNumber }) => waveNumber === wave.number).map((task) => taskCase(view, task)),
  ...lastRuns(wave).map((run) => gateCase(wave, run)),
];

/** The last run of each gate, because an earlier round was judged again after a fix. */
const lastRuns = (wave: WaveView): GateView[] => [...new Map(wave.gates.map((run) => [run.gate, run])).values()];

const attemptsOf = (view: BuildView, key: string): AttemptView[] =>
  view.waves.flatMap(({ attempts }) => attempts.filter(({ taskKey }) => taskKey === key));

const timeOf = ({ startedAt, endedAt }: AttemptView): number =>
  startedAt === null || endedAt === null ? 0 : endedAt.getTime() - startedAt.getTime();

const taskResults: Partial<Record<TaskView["status"], TestCase["result"]>> = { completed: "passed", failed: "failed" };

function taskCase(view: BuildView, { key, status, reason, waveNumber }: TaskView): TestCase {
  const attempts = attemptsOf(view, key);
  return {
    group: waveNumber === null ? "no wave" : `wave ${waveNumber}`,
    name: `task ${key}`,
    durationMs: attempts.reduce((sum, one) => sum + timeOf(one), 0),
    result: taskResults[status] ?? "skipped",
    reason: reason ?? `it is ${status}`,
    details: outputText(attempts.at(-1)?.outputTail),
  };
}

const gateResults: Partial<Record<NonNullable<GateView["verdict"]>, TestCase["result"]>> = {
  passed: "passed",
  failed: "failed",
  inconclusive: "error",
};

function gateCase(wave: WaveView, { gate, verdict, reason, round, evidence, findings }: GateView): TestCase {
  const found = findings.map(({ severity, file, line, message }) => {
    const place = file === null ? "" : ` ${file}${line === null ? "" : `:${line}`}`;
    return `${severity}${place}: ${message}`;
  });
  return {
    group: `wave ${wave.number}`,
    name: round === 1 ? `gate ${gate}` : `gate ${gate}, round ${round}`,
    durationMs: evidence?.durationMs ?? 0,
    result: verdict === null ? "skipped" : (gateResults[verdict] ?? "skipped"),
    reason: reason ?? verdict ?? "it did not run to its end",
    details: [...found, outputText(evidence?.outputTail)].join("\n").trim(),
  };
}

/** Neither XML nor Markdown shows colours. */
const outputText = (tail: string | null | undefined): string => stripVTControlCharacters(tail ?? "").trim();

function suiteText(name: string, cases: readonly TestCase[]): string {
  const count = (result: TestCase["result"]): number => cases.filter((one) => one.result === result).length;
  const counts = `tests="${cases.length}" failures="${count("failed")}" errors="${count("error")}" skipped="${count("skipped")}"`;
  return `  <testsuite name="${name}" ${counts}>\n${cases.map(caseText).join("")}  </testsuite>\n`;
}

const tags = { failed: "failure", error: "error", skipped: "skipped" } as const;

function caseText({ group, name, durationMs, result, reason, details }: TestCase): string {
  const open = `    <testcase classname="${group}" name="${xmlText(name)}" time="${secondsText(durationMs)}"`;
  if (result === "passed") return `${open}/>\n`;
  const tag = tags[result];
  return `${open}>\n      <${tag} message="${xmlText(reason)}">${xmlText(details)}</${tag}>\n    </testcase>\n`;
}

const secondsText = (ms: number): string => (ms / 1000).toFixed(3);

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Escapes text of agents and tools, and drops what XML 1.0 cannot hold. */
const xmlText = (text: string): string =>
  text
    .replace(/[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "")
    .replace(/[&<>"]/g, (character) => entities[character] ?? "");

/** One line without markup. */
const markdownText = (text: string): string => text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>|#]/g, "\\$&");
