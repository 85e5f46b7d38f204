import type { Finding } from "../domain/gate/finding.ts";
import type { Plan, PlanTask } from "../domain/plan/plan.ts";
import type { ChecksContext, DependencySummary, EarlierPlan, PersonsMessage, TaskContext } from "./port.ts";
import { cut, fence, tail } from "./prompt.ts";

// The parts of a prompt. An empty part leaves no trace. Output of tools, repositories and other
// agents is in a fence of data (W12); headings and rules are ours, instructions and house rules
// come from the plan.

const maxFiles = 200;
const maxFindings = 50;
const planLength = 60_000;
const summaryLength = 2_000;
const tailLength = 8_000;

/** The name and description of the project. */
export function aboutSection(plan: Plan): string {
  return plan.description ?? "";
}

/** Instructions with what people have said since: both have the same weight. */
export function withMessages(text: string, messages: readonly PersonsMessage[]): string {
  if (messages.length === 0) return text;
  const said = messages.map((message) => `### ${oneLine(message.by)} said\n\n${message.text.trim()}`);
  return [text, "Since then, the people who are watching this build have said:", ...said].join("\n\n");
}

/** The brief, word for word. */
export const briefSection = (text: string): string => fence("brief", text);

/** The gates that the waves of the planner's plan have to pass. */
export function gatesOfPlansSection(plan: Plan): string {
  const critic = Object.hasOwn(plan.agents, "critic")
    ? "checks of the files themselves, and a reviewer who reads every change"
    : "checks of the files themselves";
  return `## What your plan has to pass

Tasks that do not wait for others run at the same time, at most ${plan.limits.tasksPerAgentPerWave} of one role; together they are a wave. Each agent works in a tree of its own. After a wave its work is joined and goes through three gates, each on the joined tree:

1. testing: \`gates.testing.command\`, or else the tests that we find in the tree (such as \`npm test\`). It must run at least one test. With \`from\` it starts once that task is joined; without it, even the first wave needs tests.
2. critic: ${critic}.
3. integration: \`gates.integration.command\`, the acceptance checks of every task joined so far, and in the last wave whether the preview answers. So no check may rely on something that a later task removes.

If a gate fails, a fixer gets its findings, at most twice. The next wave begins only when all gates pass, on that tree.`;
}

/** Why the previous plan was rejected. */
export function earlierPlanSection(earlier: EarlierPlan | null): string {
  if (earlier === null) return "";
  const [heading, label] = {
    person: ["A person rejected your plan", "what the person said"] as const,
    check: ["Your last plan was rejected", "what was wrong"] as const,
    attempt: ["The last attempt ended without a plan", "how it ended"] as const,
  }[earlier.by];
  const text =
    earlier.text === null ? [] : ["It was this plan:", fence("the plan before", cut(earlier.text, planLength))];
  const parts = [`## ${heading}`, fence(label, earlier.reason), ...text];
  const retryLines = earlier.by === "attempt" ? [] : ["Submit a whole plan again, not just the changes."];
  return [...parts, ...retryLines].join("\n\n");
}

/** The task's instructions from the plan, and their images. */
export function instructionsSection({ instructions: text, title, images = [] }: PlanTask): string {
  const list = images.map((path) => `- ${code(path)}`).join("\n");
  return images.length === 0
    ? (text ?? title)
    : `${text ?? title}\n\nImages in your tree that belong to this:\n\n${list}`;
}

/** House rules of the plan, and what the project remembers of earlier builds. */
export function contextSection(plan: Plan, memory = ""): string {
  const rules = plan.context.map((part) => `### ${part.label}\n\n${part.text.trim()}`);
  const parts = rules.length === 0 ? [] : [`## House rules\n\n${rules.join("\n\n")}`];
  if (memory.trim() !== "") {
    const about = "Notes on earlier builds of this project. Respect the decisions that people made.";
    parts.push(`## What this project remembers\n\n${about}\n\n${fence("project memory", memory.trim())}`);
  }
  return parts.join("\n\n");
}

/** People's comments on the task's earlier work. */
export const commentsSection = (list: readonly Finding[]): string =>
  list.length === 0 ? "" : `People commented on the earlier work of this task:\n\n${findingsSection(list)}`;

export function acceptanceSection(task: PlanTask): string {
  if (task.acceptance.length === 0) return "";
  const lines = task.acceptance.map(({ text, check }) =>
    check === null ? `- ${text}` : `- ${text}\n  checked by: ${code(check)}`,
  );
  return `## Accepted when\n\n${lines.join("\n")}`;
}

export function writesSection(task: PlanTask): string {
  if (task.writes === null) return "";
  const globs = task.writes.length === 0 ? "- nothing" : task.writes.map((glob) => `- ${code(glob)}`).join("\n");
  return `## Files of this task\n\nThe plan declares that this task writes only:\n\n${globs}`;
}

export function dependenciesSection(list: readonly DependencySummary[]): string {
  if (list.length === 0) return "";
  const parts = list.map((one) => {
    const summary = one.summary === null ? [] : [fence(`summary of task ${one.key}`, cut(one.summary, summaryLength))];
    return [
      `### ${one.key}: ${oneLine(one.title)}`,
      ...summary,
      files(`files changed by task ${one.key}`, one.changedFiles),
    ]
      .filter((part) => part !== "")
      .join("\n\n");
  });
  return `## What this task builds on\n\nThese tasks are done and their work is in your tree.\n\n${parts.join("\n\n")}`;
}

export function previousFailureSection(failure: TaskContext["previousFailure"], sharesTree: boolean): string {
  if (failure === null) return "";
  const output =
    failure.outputTail.trim() === "" ? "" : `\n\n${fence("end of its output", tail(failure.outputTail, tailLength))}`;
  const left = sharesTree
    ? "The files of this task have been reset to what they were before it."
    : "Your tree is fresh: it contains nothing from that attempt.";
  return `## The last attempt failed\n\n${left}\n\n${fence("reason", failure.reason)}${output}`;
}

export function conflictsSection(list: TaskContext["conflicts"]): string {
  if (list.length === 0) return "";
  const parts = list.map(({ paths, detail }) =>
    [files("paths", paths), detail.trim() === "" ? "" : fence("what the other side did", tail(detail, tailLength))]
      .filter((part) => part !== "")
      .join("\n\n"),
  );
  return `## Conflicts with other work\n\nAn earlier attempt was finished but could not be joined: others changed the same paths. Their work is in your tree now; keep it and do your task on top of it.\n\n${parts.join("\n\n")}`;
}

/** Lists findings, one per line: severity, place, message. */
export function findingsSection(list: readonly Finding[]): string {
  if (list.length === 0) return "The gate named nothing in particular; see its output below.";
  const lines = list.slice(0, maxFindings).map((finding) => {
    const place = finding.file === null ? "" : ` ${finding.file}${finding.line === null ? "" : `:${finding.line}`}`;
    return `[${finding.severity}]${place} ${finding.rule}: ${oneLine(cut(finding.message, 1_000))}`;
  });
  if (list.length > lines.length) lines.push(`and ${list.length - lines.length} more`);
  return fence("findings", lines.join("\n"));
}

/** Numbers findings from 1 and prints them in full, for another agent to judge. */
export function numberedFindingsSection(list: readonly Finding[]): string {
  const lines = list.map((finding, index) => {
    const place = finding.file === null ? "" : ` ${finding.file}${finding.line === null ? "" : `:${finding.line}`}`;
    return `${index + 1}. [${finding.severity}]${place} ${finding.rule}: ${oneLine(cut(finding.message, 4_000))}`;
  });
  return fence("findings", lines.join("\n"));
}

export function commandSection(line: string | null, outputTail: string): string {
  const parts: string[] = [];
  if (line !== null) parts.push(`The gate ran ${code(line)}. Run it again before you finish.`);
  if (outputTail.trim() !== "") parts.push(fence("end of its output", tail(outputTail, tailLength)));
  return parts.length === 0 ? "" : `## How it was found\n\n${parts.join("\n\n")}`;
}

/** The result of a gate's own checks, for the agent that may add more. */
export function outcomeSection(
  gate: string,
  { verdict, command, exitCode, outputTail }: ChecksContext["outcome"],
): string {
  const heading = "## What the gate has checked";
  if (verdict === "absent") return `${heading}\n\nThe ${gate} gate has no checks of its own here.`;
  const ended = exitCode === null ? "" : ` (exit ${exitCode})`;
  const line = command === null ? "Its checks passed." : `It ran ${code(command)}, which passed${ended}.`;
  const output = outputTail.trim() === "" ? [] : [fence("end of its output", tail(outputTail, tailLength))];
  return [heading, line, ...output].join("\n\n");
}

/** The purpose of a wave's work. */
export function tasksSection(list: readonly PlanTask[]): string {
  if (list.length === 0) return "";
  const parts = list.map((task) => {
    const what = task.instructions ?? (task.run === null ? "" : fence(`script of task ${task.key}`, task.run));
    const criteria = task.acceptance.map(({ text }) => `- ${text}`).join("\n");
    return [`### ${task.key} (${task.agent}): ${oneLine(task.title)}`, what.trim(), criteria]
      .filter((part) => part !== "")
      .join("\n\n");
  });
  return `## What the wave was meant to do\n\n${parts.join("\n\n")}`;
}

export function changedFilesSection(list: readonly string[]): string {
  return list.length === 0 ? "" : `## What the wave changed\n\n${files("changed files", list)}`;
}

export function diffSection(text: string): string {
  return text.trim() === "" ? "" : `## The change\n\n${fence("diff", text)}`;
}

function files(label: string, paths: readonly string[]): string {
  if (paths.length === 0) return "";
  // Git allows newlines in names. Quoting keeps each name on its line.
  const lines = paths.slice(0, maxFiles).map((path) => (/[\u0000-\u001f"\\]/.test(path) ? JSON.stringify(path) : path));
  if (paths.length > lines.length) lines.push(`and ${paths.length - lines.length} more`);
  return fence(label, lines.join("\n"));
}

/** Inline code, even if the text contains backticks. */
function code(text: string): string {
  const line = oneLine(text);
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map((run) => run[0].length));
  const ticks = "`".repeat(longest + 1);
  return longest === 0 ? `${ticks}${line}${ticks}` : `${ticks} ${line} ${ticks}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
