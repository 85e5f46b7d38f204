import type { Spending } from "../../domain/models.ts";
import type { SandboxWall } from "../../domain/sandbox/sandbox.ts";
import type {
  AttemptRow,
  BuildRow,
  CommentRow,
  FindingRow,
  GateRunRow,
  MessageRow,
  PreviewRow,
  PullRequestRow,
  QuestionRow,
  TaskRow,
  WaveRow,
} from "../../store/port.ts";

// A build with its tasks, waves, attempts and gates, as people and programs see it.

type Fields<Row, Names extends keyof Row> = { readonly [Name in Names]: Row[Name] };

export type AttemptView = Fields<
  AttemptRow,
  | "id"
  | "kind"
  | "role"
  | "number"
  | "status"
  | "outcome"
  | "reason"
  | "ref"
  | "commitSha"
  | "jobKey"
  | "createdAt"
  | "startedAt"
  | "endedAt"
> & {
  /** The end of its output; null if it succeeded or has not ended. */
  readonly outputTail: string | null;
  /** Its agent's last action, in one line; null if it is unknown or the attempt has ended. */
  readonly lastAction: string | null;
  /** Null for a fix or a generate attempt. */
  readonly taskKey: string | null;
  /** Its tree is being set up, or waits for the setup cache to be filled. */
  readonly inSetup: boolean;
  /** The files it changed, once it is judged. */
  readonly changed: readonly string[];
};

export type FindingView = Fields<FindingRow, "rule" | "severity" | "message" | "file" | "line">;

export type GateView = Fields<
  GateRunRow,
  "id" | "gate" | "round" | "sha" | "status" | "verdict" | "reason" | "evidence" | "jobKey" | "createdAt" | "endedAt"
> & { readonly findings: readonly FindingView[] };

export type TaskView = Fields<
  TaskRow,
  "key" | "agent" | "definition" | "status" | "attempts" | "retriesUsed" | "conflicts" | "reason" | "endedAt"
> & {
  /** Its current or last wave. */
  readonly waveNumber: number | null;
};

export type WaveView = Fields<
  WaveRow,
  | "id"
  | "number"
  | "status"
  | "baseSha"
  | "headSha"
  | "rejectedSha"
  | "fixRounds"
  | "epoch"
  | "reason"
  | "createdAt"
  | "endedAt"
> & {
  /** Its tasks, in plan order. A task that a conflict sent back is also in a later wave. */
  readonly taskKeys: readonly string[];
  /** Oldest first. */
  readonly attempts: readonly AttemptView[];
  readonly gates: readonly GateView[];
};

export type QuestionView = Fields<
  QuestionRow,
  | "id"
  | "attemptId"
  | "role"
  | "text"
  | "reason"
  | "options"
  | "askedAt"
  | "deadlineAt"
  | "answer"
  | "answeredBy"
  | "answeredAt"
  | "closedAt"
>;

export type MessageView = Fields<
  MessageRow,
  "id" | "text" | "by" | "urgent" | "createdAt" | "attemptId" | "deliveredAt"
> & { readonly taskKey: string };

export type CommentView = CommentRow & { readonly taskKey: string | null };

export type PreviewView = Fields<PreviewRow, "waveNumber" | "status" | "port" | "reason"> & {
  /** The address at which `serve` shows it (PA1). */
  readonly url: string | null;
};

export type PullRequestView = Fields<
  PullRequestRow,
  | "key"
  | "forge"
  | "repo"
  | "branch"
  | "base"
  | "waveNumber"
  | "sha"
  | "number"
  | "url"
  | "status"
  | "mergeState"
  | "checks"
  | "commits"
  | "mergeSha"
  | "problem"
  | "remedy"
  | "tries"
  | "nextAt"
>;

export interface BuildView {
  readonly build: BuildRow;
  readonly project: string;
  readonly tasks: readonly TaskView[];
  readonly waves: readonly WaveView[];
  readonly preview: PreviewView | null;
  /** Its pull requests, oldest wave first; absent if it delivers to no forge. */
  readonly pullRequests?: readonly PullRequestView[];
  /** Agents' questions, oldest first. */
  readonly questions: readonly QuestionView[];
  /** People's messages to its agents, oldest first. */
  readonly messages: readonly MessageView[];
  /** People's comments on its work, oldest first. */
  readonly comments: readonly CommentView[];
  /** Why its sandbox has to wait before it can start; null if it does not wait. */
  readonly waitsForSandbox: string | null;
  /** A problem of its running sandbox, such as a volume above its limit; null if there is none. */
  readonly sandboxTrouble: string | null;
  /** How its sandbox's jobs are isolated from each other; null before the sandbox first ran. */
  readonly sandboxWall: SandboxWall | null;
  /** Model spending by attempt or gate run; an id without spending is absent. */
  readonly spending: ReadonlyMap<string, Spending>;
}

// What the status of a build shows, which is less: a program may ask for it every second.

export type StatusAttempt = Pick<AttemptView, "id" | "kind" | "number" | "status" | "outcome" | "taskKey">;

export type StatusGate = Pick<GateView, "id" | "gate" | "status" | "verdict"> & {
  /** Null if no agent added checks. */
  readonly evidence: Pick<NonNullable<GateView["evidence"]>, "added"> | null;
  /** Empty once it has passed. */
  readonly findings: readonly FindingView[];
};

export type StatusWave = Omit<WaveView, "attempts" | "gates"> & {
  readonly attempts: readonly StatusAttempt[];
  readonly gates: readonly StatusGate[];
};

export type StatusView = Omit<BuildView, "waves"> & { readonly waves: readonly StatusWave[] };
