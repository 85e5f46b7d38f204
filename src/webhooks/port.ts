import type { CheckConclusion, CommandVerb } from "../domain/events/outside.ts";

/**
 * The place where something happened and its id there, which is the same for a webhook and for
 * polling.
 */
interface OutsidePlace {
  /** `owner/name` on a forge; for other CI systems also a project's name. */
  readonly repository: string;
  readonly origin: string;
}

interface OnRequest extends OutsidePlace {
  readonly number: number;
  readonly by: string;
}

export interface CheckFact extends OutsidePlace {
  readonly kind: "check";
  readonly branch: string | null;
  readonly sha: string | null;
  readonly name: string;
  readonly conclusion: CheckConclusion;
  readonly url: string | null;
  readonly log: string | null;
  /** The job whose log the forge keeps. */
  readonly jobId: number | null;
  readonly completedAt: Date;
}

/** All checks of a suite have ended. */
export interface SuiteFact extends OutsidePlace {
  readonly kind: "suite";
  readonly suiteId: number;
  readonly branch: string | null;
  readonly sha: string;
  /** The workflow, or the CI system. */
  readonly name: string;
  readonly conclusion: CheckConclusion;
  readonly url: string | null;
  readonly completedAt: Date;
}

export interface CommentFact extends OnRequest {
  readonly kind: "comment";
  readonly text: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly url: string | null;
}

export interface ThreadFact extends OnRequest {
  readonly kind: "thread";
  /** The origins of its comments. */
  readonly comments: readonly string[];
  readonly resolved: boolean;
}

export interface ReviewFact extends OnRequest {
  readonly kind: "review";
  readonly state: "approved" | "changes_requested";
  readonly text: string;
  readonly sha: string | null;
}

export interface ClosedFact extends OnRequest {
  readonly kind: "closed";
  readonly merged: boolean;
}

export interface CommandFact extends OnRequest {
  readonly kind: "command";
  readonly verb: CommandVerb;
  /** The text after the verb. */
  readonly text: string;
}

export interface IssueFact extends OnRequest {
  readonly kind: "issue";
  readonly title: string;
  readonly text: string;
}

export interface LabelFact extends OnRequest {
  readonly kind: "label";
  readonly label: string;
}

export interface PushFact extends OutsidePlace {
  readonly kind: "push";
  readonly by: string;
  readonly branch: string;
  readonly sha: string;
}

/** One thing that happened on a forge or in CI, with the fields that we use. */
export type OutsideFact =
  | CheckFact
  | SuiteFact
  | CommentFact
  | ThreadFact
  | ReviewFact
  | ClosedFact
  | CommandFact
  | IssueFact
  | LabelFact
  | PushFact;

/** The facts in one delivery. */
export interface ReadDelivery {
  readonly facts: readonly OutsideFact[];
  /** Why there is nothing to do; null if there are facts. */
  readonly ignored: string | null;
  /** The name that the forge's repository has now, and its id, which a rename does not change. */
  readonly repository?: { readonly name: string; readonly id: string };
}

/** The label and the assignee that start a build of an issue. */
export interface IssueTriggers {
  readonly label: string;
  /** The login of our account; null: an assignment starts nothing. */
  readonly assignee: string | null;
}
