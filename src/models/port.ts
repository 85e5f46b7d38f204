import type { CallEnding, ModelLimits, ModelUsage, ProviderName, ProviderTools } from "../domain/models.ts";

/**
 * A `session` is an attempt's, continued by a person; its fence is the minute at which it expires.
 */
export type ModelOwnerKind = "attempt" | "gate" | "session";

/** The owner of a call: an attempt or a gate's agent, under the fence that made it live. */
export interface ModelOwner {
  readonly kind: ModelOwnerKind;
  readonly id: string;
  readonly fence: number;
  readonly tenantId: string;
  readonly buildId: string;
  /** Stable across runs, such as `api #1`; cassettes use it to identify calls. */
  readonly name: string;
  readonly budget: { readonly tokens: number | null; readonly usd: number | null };
  readonly tools: ProviderTools;
}

/** A planned call at its worst case. */
export interface Reservation {
  readonly owner: ModelOwner;
  readonly provider: string;
  readonly model: string;
  readonly inputTokens: number;
  /** Whether the provider may cache it for an hour. */
  readonly keepsLong: boolean;
  /** The requested output; less may be granted when only that is left. */
  readonly outputTokens: number;
  /** The smallest useful answer. */
  readonly leastOutputTokens: number;
  /** Whether it takes a step of the agent's work. */
  readonly offersTools: boolean;
}

export type Granted =
  | { readonly callId: string; readonly outputTokens: number }
  /** `isOver`: the budget is used up; otherwise the call waited too long. */
  | { readonly callId: null; readonly isOver: boolean; readonly reason: string };

/** A call that did not finish. */
export interface Unfinished {
  readonly ending: Exclude<CallEnding, "whole" | "left"> | "open";
  /** The reason, in words. */
  readonly reason: string;
  /** Whether the conversation was longer than the model's window. */
  readonly overflowed: boolean;
}

export interface Settlement {
  readonly status: "done" | "failed" | "cut";
  /** Null if unknown: then a call that broke off counts at its worst case, a failed one as free. */
  readonly usage: ModelUsage | null;
  /** Whether we estimated the usage because the provider did not report it. */
  readonly isEstimated: boolean;
  readonly ending: CallEnding;
  readonly httpStatus: number | null;
  readonly error: string | null;
}

/** The record of spending in the database (W10). */
export interface ModelLedger {
  /** Returns the live owner with this id and fence, or null. */
  findOwner(kind: ModelOwnerKind, id: string, fence: number): Promise<ModelOwner | null>;
  /**
   * Reserves the worst case in one row-locked update before the call. Waits its turn while open
   * calls hold the room; rejects when the signal aborts.
   */
  reserve(reservation: Reservation, signal: AbortSignal): Promise<Granted>;
  /** How many calls of an attempt or gate run wait for room in the budget. */
  waiting(ownerId: string): number;
  /**
   * Says in words why an agent's last call did not finish: it failed, was cut or cannot be read.
   * Null if it did. Calls without tools count only for an agent that has no others, because agents
   * also let a model name their sessions.
   */
  unfinished(ownerId: string): Promise<Unfinished | null>;
  /** Notes that the agent of an open call hung up before it had the whole answer. */
  noteHangUp(callId: string): Promise<void>;
  /**
   * Notes that an agent's turn ended without waiting for its open calls, so that hanging up on them
   * says nothing about its work.
   */
  overlookOpen(ownerId: string): Promise<void>;
  /** Replaces the reservation by the actual usage, once per call. */
  settle(callId: string, settlement: Settlement): Promise<void>;
  /**
   * Settles at their worst case a project's open calls that another process made, because that
   * process is dead. Only the process about to answer the project's calls may do this.
   */
  settleLeft(projectId: string): Promise<void>;
}

/** A provider and our credentials for it. */
export interface ModelProvider {
  readonly name: ProviderName;
  /**
   * The base URL without a trailing slash; paths such as `/v1/messages` follow. That of a
   * compatible server has its version: `/chat/completions` follows.
   */
  readonly baseUrl: string;
  /** Limits that a person set for its models. */
  readonly limits?: ModelLimits;
  /** Headers that replace the agent's. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it is a subscription, whose price is unknown unless a person sets one. */
  readonly isSubscription?: boolean;
}

/** Recorded calls and answers, with which a build can be repeated without a provider. */
export interface Cassette {
  /**
   * Returns the recorded answer; null if the call must be made. Fails if a replay lacks the call.
   */
  find(call: CassetteCall): Promise<CassetteAnswer | null>;
  keep(call: CassetteCall, answer: CassetteAnswer): Promise<void>;
}

export interface CassetteCall {
  readonly owner: string;
  readonly provider: string;
  readonly path: string;
  readonly body: unknown;
}

export interface CassetteAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Models {
  /**
   * Creates the token that an agent of this owner sends to the proxy. It expires when the owner is
   * settled or fenced off.
   */
  tokenFor(kind: ModelOwnerKind, id: string, fence: number): Promise<string>;
  /**
   * Answers this project's calls on this socket; waits while another live process does. Anyone who
   * can open the socket may connect, so every call needs a token. Safe to call twice.
   */
  listen(socketPath: string, projectId: string): void;
  /** Aborts open calls, settles them, and accepts no more. */
  close(): Promise<void>;
  /**
   * Stops listening for the usage of calls whose agents hung up, and resolves when they are counted
   * with what is known. For a command that ends anyway.
   */
  countLeft(): Promise<void>;
  /**
   * Says why the last model call of an attempt or gate run did not finish; null if it did or there
   * was none.
   */
  unfinished(ownerId: string): Promise<Unfinished | null>;
  /** Names what this model lacks, in one line; null when it can be used. */
  lacks(model: string | null): string | null;
  /** Whether this model's price is known. */
  isPriced(model: string): boolean;
}
