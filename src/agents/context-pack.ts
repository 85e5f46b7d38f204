import { type Plan, type PlanTask, promptFor } from "../domain/plan/plan.ts";
import { promptKindOf } from "../domain/plan/prompts.ts";
import type {
  ChecksContext,
  ContextPack,
  FixContext,
  PlanContext,
  ReviewContext,
  SecondLookContext,
  TaskContext,
} from "./port.ts";
import { cut, type Prompts, render } from "./prompt.ts";
import {
  checksRules,
  handInChecks,
  handInPlan,
  handInReview,
  handInSecondLook,
  planRules,
  reviewRules,
  secondLookRules,
  workRules,
} from "./rules.ts";
import {
  aboutSection,
  acceptanceSection,
  briefSection,
  changedFilesSection,
  commandSection,
  commentsSection,
  conflictsSection,
  contextSection,
  dependenciesSection,
  diffSection,
  earlierPlanSection,
  findingsSection,
  gatesOfPlansSection,
  instructionsSection,
  numberedFindingsSection,
  outcomeSection,
  previousFailureSection,
  tasksSection,
  withMessages,
  writesSection,
} from "./sections.ts";

/**
 * The task file, version 1: the prompt as data. Every key is always present; keys that do not apply
 * are null or empty.
 */
interface TaskFile {
  readonly version: 1;
  readonly kind: "task" | "plan" | "fix" | "review" | "second-look" | "checks";
  readonly role: string;
  readonly plan: { readonly name: string; readonly description: string | null; readonly context: Plan["context"] };
  /** The task to do; null for a fix or a review. */
  readonly task: ReturnType<typeof taskData> | null;
  /** From 1; for a fix the round. */
  readonly attempt: number;
  readonly wave: number;
  readonly dependencies: TaskContext["dependencies"];
  readonly previousFailure: TaskContext["previousFailure"];
  readonly conflicts: TaskContext["conflicts"];
  /** What the project remembers of earlier builds. */
  readonly memory: string;
  /** People's messages to the task's agent from before this attempt. */
  readonly messages: TaskContext["messages"];
  readonly findings: FixContext["findings"];
  /** The gate that requested a fix or checks, with its command and the end of its output. */
  readonly gate: {
    readonly name: string;
    readonly command: string | null;
    readonly outputTail: string;
    readonly maxRounds: number;
    /** For `kind: "checks"`: the verdict of the gate's own checks. */
    readonly verdict?: "passed" | "absent";
  } | null;
  /** Fix and review: the tasks of the wave and the files it changed. */
  readonly tasks: readonly ReturnType<typeof taskData>[];
  readonly changedFiles: readonly string[];
  readonly diff: string | null;
  readonly mayChangeTests: boolean;
  readonly rules: readonly string[];
}

export function taskPack(prompts: Prompts, context: TaskContext): ContextPack {
  const { plan, task } = context;
  // A task that does not declare its writes is alone in its wave.
  const sharesTree = plan.isolation === "shared" && task.writes !== null;
  const rules = workRules({ mayChangeTests: task.mayChangeTests, committed: "task", sharesTree });
  const own = promptKindOf(task.agent) === "task" ? promptFor(plan, task.agent) : null;
  const prompt = render(own ?? prompts.task, {
    title: task.title,
    role: task.agent,
    plan: plan.name,
    about: aboutSection(plan),
    instructions: [withMessages(instructionsSection(task), context.messages), commentsSection(context.findings)]
      .filter((part) => part !== "")
      .join("\n\n"),
    context: contextSection(plan, context.memory),
    acceptance: acceptanceSection(task),
    writes: writesSection(task),
    dependencies: dependenciesSection(context.dependencies),
    previousFailure: previousFailureSection(context.previousFailure, sharesTree),
    conflicts: conflictsSection(context.conflicts),
    rules: rulesSection(rules),
  });
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "task",
    role: task.agent,
    task: taskData(task),
    attempt: context.attempt,
    dependencies: context.dependencies.map((one) => ({
      ...one,
      summary: one.summary === null ? null : cut(one.summary, 2_000),
    })),
    previousFailure: context.previousFailure,
    conflicts: context.conflicts,
    messages: context.messages,
    findings: context.findings,
    memory: context.memory,
    mayChangeTests: task.mayChangeTests,
    rules,
  };
  return { prompt, taskFile: toJson(file) };
}

export function planPack(prompts: Prompts, context: PlanContext): ContextPack {
  const { plan, task, earlier, messages, memory } = context;
  const prompt = render(promptFor(plan, task.agent) ?? prompts.planner, {
    role: task.agent,
    plan: plan.name,
    about: aboutSection(plan),
    brief: withMessages(briefSection(task.instructions ?? task.title), messages),
    context: contextSection(plan, memory),
    gates: gatesOfPlansSection(plan),
    earlier: earlierPlanSection(earlier),
    handIn: handInPlan,
  });
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "plan",
    role: task.agent,
    task: taskData(task),
    attempt: context.attempt,
    previousFailure: earlier === null ? null : { reason: earlier.reason, outputTail: "" },
    messages,
    memory,
    rules: planRules(),
  };
  return { prompt, taskFile: toJson(file) };
}

export function fixPack(prompts: Prompts, context: FixContext): ContextPack {
  const { plan, gate } = context;
  const rules = workRules({ mayChangeTests: context.mayChangeTests, committed: "fix", sharesTree: false });
  const prompt = render(promptFor(plan, "fixer") ?? prompts.fix, {
    gate,
    role: "fixer",
    plan: plan.name,
    round: String(context.round),
    maxRounds: String(context.maxRounds),
    about: aboutSection(plan),
    findings: findingsSection(context.findings),
    command: commandSection(context.command, context.outputTail),
    context: contextSection(plan, context.memory),
    tasks: tasksSection(context.tasks),
    changedFiles: changedFilesSection(context.changedFiles),
    diff: diffSection(context.diff),
    rules: rulesSection(rules),
  });
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "fix",
    role: "fixer",
    attempt: context.round,
    findings: context.findings,
    memory: context.memory,
    gate: { name: gate, command: context.command, outputTail: context.outputTail, maxRounds: context.maxRounds },
    tasks: context.tasks.map(taskData),
    changedFiles: context.changedFiles,
    diff: context.diff,
    mayChangeTests: context.mayChangeTests,
    rules,
  };
  return { prompt, taskFile: toJson(file) };
}

export function reviewPack(prompts: Prompts, context: ReviewContext): ContextPack {
  const { plan } = context;
  const prompt = render(promptFor(plan, "critic") ?? prompts.review, {
    wave: String(context.waveNumber),
    role: "critic",
    plan: plan.name,
    about: aboutSection(plan),
    context: contextSection(plan),
    tasks: tasksSection(context.tasks),
    changedFiles: changedFilesSection(context.changedFiles),
    diff: diffSection(context.diff),
    handIn: handInReview,
  });
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "review",
    role: "critic",
    tasks: context.tasks.map(taskData),
    changedFiles: context.changedFiles,
    diff: context.diff,
    rules: reviewRules(),
  };
  return { prompt, taskFile: toJson(file) };
}

/**
 * Asks a fresh session to judge the findings of another. The project's own critic prompt is not
 * used again.
 */
export function secondLookPack(prompts: Prompts, context: SecondLookContext): ContextPack {
  const { plan, findings } = context;
  const prompt = render(prompts["second-look"], {
    wave: String(context.waveNumber),
    role: "critic",
    plan: plan.name,
    about: aboutSection(plan),
    findings: numberedFindingsSection(findings),
    tasks: tasksSection(context.tasks),
    diff: diffSection(context.diff),
    handIn: handInSecondLook,
  });
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "second-look",
    role: "critic",
    findings,
    tasks: context.tasks.map(taskData),
    changedFiles: context.changedFiles,
    diff: context.diff,
    rules: secondLookRules(),
  };
  return { prompt, taskFile: toJson(file) };
}

/** Asks a gate's agent which checks are missing, now that the gate's own have passed. */
export function checksPack(prompts: Prompts, context: ChecksContext): ContextPack {
  const { plan, gate, role, outcome } = context;
  const prompt = render(promptFor(plan, role, "checks") ?? prompts.checks, {
    gate,
    role,
    wave: String(context.waveNumber),
    plan: plan.name,
    about: aboutSection(plan),
    context: contextSection(plan),
    outcome: outcomeSection(gate, outcome),
    tasks: tasksSection(context.tasks),
    changedFiles: changedFilesSection(context.changedFiles),
    diff: diffSection(context.diff),
    handIn: handInChecks,
  });
  const { verdict, command, outputTail } = outcome;
  const file: TaskFile = {
    ...emptyFile(plan, context.waveNumber),
    kind: "checks",
    role,
    gate: { name: gate, command, outputTail, maxRounds: plan.gates.maxFixRounds, verdict },
    tasks: context.tasks.map(taskData),
    changedFiles: context.changedFiles,
    diff: context.diff,
    rules: checksRules(),
  };
  return { prompt, taskFile: toJson(file) };
}

function rulesSection(rules: readonly string[]): string {
  return `## Rules\n\n${rules.map((rule) => `- ${rule}`).join("\n")}`;
}

function emptyFile(plan: Plan, wave: number): Omit<TaskFile, "kind" | "role" | "rules"> {
  return {
    version: 1,
    plan: { name: plan.name, description: plan.description, context: plan.context },
    task: null,
    attempt: 1,
    wave,
    dependencies: [],
    previousFailure: null,
    conflicts: [],
    memory: "",
    messages: [],
    findings: [],
    gate: null,
    tasks: [],
    changedFiles: [],
    diff: null,
    mayChangeTests: false,
  };
}

/** A task with the keys of the plan file. */
function taskData(task: PlanTask) {
  return {
    id: task.key,
    title: task.title,
    agent: task.agent,
    instructions: task.instructions,
    images: task.images ?? [],
    writes: task.writes,
    acceptance: task.acceptance,
    dependsOn: task.dependsOn,
  };
}

function toJson(file: TaskFile): string {
  return `${JSON.stringify(file, null, 2)}\n`;
}
