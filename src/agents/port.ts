import type { AgentEnd, ChatLine } from "../agent-host/protocol.ts";
import type { Activity } from "../domain/events/activity.ts";
import type { Finding } from "../domain/gate/finding.ts";
import type { ProviderTools } from "../domain/models.ts";
import type { AgentSpec, Plan, PlanTask } from "../domain/plan/plan.ts";
import type { GateName } from "../domain/status.ts";
import type { StageSpec } from "../sandbox/port.ts";

export type { AgentEnd, ChatLine } from "../agent-host/protocol.ts";

export interface DependencySummary {
  readonly key: string;
  readonly title: string;
  /**
   * The summary of the dependency's agent (from its result file, otherwise its last message), at
   * most 2,000 characters; null without one.
   */
  readonly summary: string | null;
  /** From git, not from the agent. */
  readonly changedFiles: readonly string[];
}

export interface TaskContext {
  readonly plan: Plan;
  readonly task: PlanTask;
  readonly attempt: number;
  readonly waveNumber: number;
  readonly dependencies: readonly DependencySummary[];
  /** Why the last attempt failed, with the end of its output; null for a first attempt. */
  readonly previousFailure: { readonly reason: string; readonly outputTail: string } | null;
  /** Conflicts that sent the task back, with the paths and the other side's changes. */
  readonly conflicts: readonly { readonly paths: readonly string[]; readonly detail: string }[];
  readonly messages: readonly PersonsMessage[];
  /** People's comments on the task's earlier work. */
  readonly findings: readonly Finding[];
  /** What the project remembers of earlier builds; empty: nothing. */
  readonly memory: string;
}

/** A person's message to the task's agent from before this attempt. */
export interface PersonsMessage {
  readonly by: string;
  readonly text: string;
}

/** A previous plan that was rejected. */
export interface EarlierPlan {
  /** A person's reason, the faults that we found, or the attempt's failure. */
  readonly by: "person" | "check" | "attempt";
  readonly reason: string;
  /** The submitted plan; null when there was none. */
  readonly text: string | null;
}

export interface PlanContext {
  readonly plan: Plan;
  /** The task that makes the plan; its instructions are the brief. */
  readonly task: PlanTask;
  readonly attempt: number;
  readonly waveNumber: number;
  readonly earlier: EarlierPlan | null;
  readonly memory: string;
  readonly messages: readonly PersonsMessage[];
}

export interface FixContext {
  readonly plan: Plan;
  readonly waveNumber: number;
  readonly round: number;
  readonly maxRounds: number;
  readonly gate: GateName | "approval";
  readonly findings: readonly Finding[];
  readonly command: string | null;
  readonly outputTail: string;
  readonly memory: string;
  /** Tasks of the wave, which say what the code was meant to do. */
  readonly tasks: readonly PlanTask[];
  readonly changedFiles: readonly string[];
  /** The wave's unified diff, cut to a size that fits. */
  readonly diff: string;
  readonly mayChangeTests: boolean;
}

export interface ReviewContext {
  readonly plan: Plan;
  readonly waveNumber: number;
  readonly tasks: readonly PlanTask[];
  readonly changedFiles: readonly string[];
  /** The unified diff, cut to a size that fits. */
  readonly diff: string;
}

export interface SecondLookContext extends ReviewContext {
  /**
   * The findings of the first look that would block. The agent confirms or rejects each by its
   * number, from 1.
   */
  readonly findings: readonly Finding[];
}

export interface ChecksContext extends ReviewContext {
  readonly gate: GateName;
  readonly role: string;
  /** The result of the gate's own checks. */
  readonly outcome: {
    readonly verdict: "passed" | "absent";
    readonly command: string | null;
    readonly exitCode: number | null;
    readonly outputTail: string;
  };
}

/** An agent's input: the prompt for its stdin, and the same as data for WAVESMITH_TASK_FILE. */
export interface ContextPack {
  readonly prompt: string;
  readonly taskFile: string;
}

export interface AgentStageRequest {
  readonly spec: AgentSpec | null;
  /** Images in the tree that are shown to the agent with its prompt. */
  readonly images: readonly string[];
  /** A `run:` script instead of the role's runtime. */
  readonly run: string | null;
  readonly role: string;
  readonly pack: ContextPack;
  /** Volume paths. */
  readonly treePath: string;
  readonly taskFilePath: string;
  readonly resultFilePath: string;
  /** Where the volume is inside the sandbox. */
  readonly workspaceRoot: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** For ACP agents: the folder on the volume for their configuration and sessions. */
  readonly homePath: string;
  /** The token that the agent sends to the model proxy. */
  readonly modelToken: string;
  readonly providerTools: ProviderTools;
  /** The JSON schema of the role's result; null if it needs none. */
  readonly resultSchema: unknown;
  /** The role must not change any file. */
  readonly readOnly: boolean;
  /** The path on the volume for a person's answers; null if nobody can be asked. */
  readonly answersPath: string | null;
}

/** A report about a question to a person, from the output of an agent's stage. */
export type QuestionEvent =
  | {
      readonly kind: "asked";
      readonly name: string;
      readonly text: string;
      readonly reason: string;
      readonly options: readonly { readonly name: string; readonly kind: string }[];
      readonly waitMs: number;
    }
  /** The agent stopped waiting for the answer. */
  | { readonly kind: "closed"; readonly name: string };

/** The contents of WAVESMITH_RESULT_FILE. Every field is optional; other keys are dropped. */
export interface AgentResult {
  readonly summary: string | null;
}

export interface Agents {
  taskPack(context: TaskContext): ContextPack;
  planPack(context: PlanContext): ContextPack;
  fixPack(context: FixContext): ContextPack;
  reviewPack(context: ReviewContext): ContextPack;
  secondLookPack(context: SecondLookContext): ContextPack;
  checksPack(context: ChecksContext): ContextPack;
  /**
   * Builds the job stage that runs the agent under any runtime, or a `run:` script. Fails with
   * `unsupported` without a runtime.
   */
  agentStage(request: AgentStageRequest): StageSpec;
  /**
   * Builds the stage that continues the session of a runtime with an agent host; its stdin takes a
   * line of `chatLine` for each thing that a person says. Fails with `unsupported` for other
   * runtimes.
   */
  sessionStage(request: AgentStageRequest): StageSpec;
  /** Reads how an ACP agent ended from the output of its stage; null when it did not report it. */
  endOf(output: string): { readonly end: AgentEnd; readonly detail: string } | null;
  /**
   * Returns the last message of an ACP agent from the output of its stage, at most 2,000
   * characters; null when it sent none.
   */
  lastMessage(output: string): string | null;
  /** Describes the latest action in complete lines of output; null if they have none. */
  lastActionIn(lines: string): string | null;
  /** Reads the activity that the agent reports from complete lines of output, in order. */
  activitiesIn(lines: string): Activity[];
  /** Reads reports about questions from complete lines of output, in order. */
  questionsIn(lines: string): QuestionEvent[];
  /** Reads which of a person's messages the agent got, from complete lines of output. */
  toldIn(lines: string): number[];
  /** Writes what a person says to an agent as a line of a session's stdin. */
  chatLine(said: ChatLine): string;
  /** Output of a stage as a person reads it. */
  readable(output: string): string;
  /**
   * Reads a result file leniently: bad JSON or an unknown shape gives no summary and never fails.
   */
  parseResult(text: string | null): AgentResult;
}
