import type { AgentEnd } from "../agent-host/protocol.ts";
import type { Finding } from "../domain/finding.ts";
import type { ProviderTools } from "../domain/models.ts";
import type { AgentSpec, Plan, PlanTask } from "../domain/plan.ts";
import type { GateName } from "../domain/status.ts";
import type { StageSpec } from "../sandbox/port.ts";

export type { AgentEnd } from "../agent-host/protocol.ts";

export interface DependencySummary {
  readonly key: string;
  readonly title: string;
  /**
   * What the dependency's agent said it did (in its result file, else in its last message), at most
   * 2,000 characters; null when it said nothing.
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
  /** Conflicts that sent the task back, with the paths and what the other side did. */
  readonly conflicts: readonly { readonly paths: readonly string[]; readonly detail: string }[];
}

/** A plan that was made before and not taken. */
export interface EarlierPlan {
  /** A person's word, faults that our check found, or an attempt that came to nothing. */
  readonly by: "person" | "check" | "attempt";
  readonly reason: string;
  /** What was handed in; null when nothing was. */
  readonly text: string | null;
}

export interface PlanContext {
  readonly plan: Plan;
  /** The task that makes the plan; its instructions are the brief. */
  readonly task: PlanTask;
  readonly attempt: number;
  readonly waveNumber: number;
  readonly earlier: EarlierPlan | null;
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
  /** Tasks of the wave, for what the code was meant to do. */
  readonly tasks: readonly PlanTask[];
  readonly changedFiles: readonly string[];
  readonly mayChangeTests: boolean;
}

export interface ReviewContext {
  readonly plan: Plan;
  readonly waveNumber: number;
  readonly tasks: readonly PlanTask[];
  readonly changedFiles: readonly string[];
  /** Unified diff, cut to a size that fits. */
  readonly diff: string;
}

export interface SecondLookContext extends ReviewContext {
  /**
   * What the first look found and would block: the agent says of each, by its number from 1,
   * whether it holds.
   */
  readonly findings: readonly Finding[];
}

export interface ChecksContext extends ReviewContext {
  readonly gate: GateName;
  readonly role: string;
  /** What the gate's own checks said. */
  readonly outcome: {
    readonly verdict: "passed" | "absent";
    readonly command: string | null;
    readonly exitCode: number | null;
    readonly outputTail: string;
  };
}

/**
 * What an agent is given: the prompt for its stdin and the same as data for WAVESMITH_TASK_FILE.
 */
export interface ContextPack {
  readonly prompt: string;
  readonly taskFile: string;
}

export interface AgentStageRequest {
  readonly spec: AgentSpec | null;
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
  /**
   * For agents of the Agent Client Protocol: where their configuration and sessions lie on the
   * volume.
   */
  readonly homePath: string;
  /** What the agent shows to the model proxy. */
  readonly modelToken: string;
  readonly providerTools: ProviderTools;
  /** What the role hands in, as a JSON schema; null: it need not. */
  readonly resultSchema: unknown;
  /** The role must change nothing. */
  readonly readOnly: boolean;
  /**
   * Where a person's answers to what it asks are put, on the volume; null: nobody is there to be
   * asked.
   */
  readonly answersPath: string | null;
}

/** What the output of an agent's stage says of questions to a person. */
export type QuestionEvent =
  | {
      readonly kind: "asked";
      readonly name: string;
      readonly text: string;
      readonly reason: string;
      readonly options: readonly { readonly name: string; readonly kind: string }[];
      readonly waitMs: number;
    }
  /** It is not waited for any more. */
  | { readonly kind: "closed"; readonly name: string };

/**
 * What an agent may hand in through WAVESMITH_RESULT_FILE; every field optional, anything else is
 * kept out.
 */
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
   * The job stage that runs the agent, whatever its runtime, or a `run:` script. Fails with
   * `unsupported` without a runtime.
   */
  agentStage(request: AgentStageRequest): StageSpec;
  /**
   * How an agent of the Agent Client Protocol ended, from the output of its stage; null when it
   * never said.
   */
  endOf(output: string): { readonly end: AgentEnd; readonly detail: string } | null;
  /**
   * The last an agent of the Agent Client Protocol said, from the output of its stage, at most
   * 2,000 characters; null when it said nothing.
   */
  lastMessage(output: string): string | null;
  /** What whole lines of output say of questions, in their order. */
  questionsIn(lines: string): QuestionEvent[];
  /** Output of a stage as a person reads it. */
  readable(output: string): string;
  /**
   * Reads a result file leniently: bad JSON or a foreign shape gives no summary, never a failure.
   */
  parseResult(text: string | null): AgentResult;
}
