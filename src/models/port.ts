import type { ModelUsage, ProviderName, ProviderTools } from "../domain/models.ts";

export type ModelOwnerKind = "attempt" | "gate";

/** Whose call it is: an attempt, or the agent of a gate, under the fence that made it live. */
export interface ModelOwner {
  readonly kind: ModelOwnerKind;
  readonly id: string;
  readonly fence: number;
  readonly buildId: string;
  /**
   * The same whenever the build is run again, such as `api #1`: what a cassette knows its calls by.
   */
  readonly name: string;
  readonly budget: { readonly tokens: number | null; readonly usd: number | null };
  readonly tools: ProviderTools;
}

/** A call that is to be made, at its worst. */
export interface Reservation {
  readonly owner: ModelOwner;
  readonly provider: string;
  readonly model: string;
  readonly inputTokens: number;
  /** Whether the provider may keep it in its cache for an hour. */
  readonly keepsLong: boolean;
  /** What the agent asked for; less may be granted, when that is all that is left. */
  readonly outputTokens: number;
  /** An answer with less room is none. */
  readonly leastOutputTokens: number;
}

export type Granted =
  | { readonly callId: string; readonly outputTokens: number }
  /** `isOver`: the budget is used up, rather than that the call waited for too long. */
  | { readonly callId: null; readonly isOver: boolean; readonly reason: string };

export interface Settlement {
  readonly status: "done" | "failed" | "cut";
  /**
   * Null: nobody knows. A call that was cut is then counted at its worst, a failed one as nothing.
   */
  readonly usage: ModelUsage | null;
  /** The provider did not say it: what passed was measured here. */
  readonly isEstimated: boolean;
  readonly httpStatus: number | null;
  readonly error: string | null;
}

/** What is spent, in the database (W10). */
export interface ModelLedger {
  /** Null when nobody live is called that any more. */
  findOwner(kind: ModelOwnerKind, id: string, fence: number): Promise<ModelOwner | null>;
  /**
   * Reserves the worst case in one row-locked update, before the call is made. Waits its turn while
   * calls under way hold what it needs; rejects when the signal is given meanwhile.
   */
  reserve(reservation: Reservation, signal: AbortSignal): Promise<Granted>;
  /** How many calls of an attempt or gate run wait for room in the budget. */
  waiting(ownerId: string): number;
  /** Puts what it really took in the reservation's place. Once for each call. */
  settle(callId: string, settlement: Settlement): Promise<void>;
  /**
   * Settles at their worst the calls of a project that are under way and not this process': whoever
   * made them is dead. For the process that is about to answer the project's calls, since it is the
   * only one then.
   */
  settleLeft(projectId: string): Promise<void>;
}

/** A provider and how we sign in there. */
export interface ModelProvider {
  readonly name: ProviderName;
  /** Without a trailing slash; paths such as `/v1/messages` follow. */
  readonly baseUrl: string;
  /** Sent instead of what the agent sent. */
  readonly headers: Readonly<Record<string, string>>;
  /** A subscription: what a call costs there is unknown, unless a person says it. */
  readonly isSubscription?: boolean;
}

/** Calls and answers on disk, by which a build runs again without a provider. */
export interface Cassette {
  /** The answer to the same call, or null: it is made. Fails when a replay has no such call. */
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
   * What an agent of this owner shows to the proxy: dead when the owner is settled or fenced off.
   */
  tokenFor(kind: ModelOwnerKind, id: string, fence: number): Promise<string>;
  /**
   * Answers calls of this project's agents on this socket from now on; waits while another live
   * process does. Whoever can open the socket may call, so every call shows its token. Asking again
   * changes nothing.
   */
  listen(socketPath: string, projectId: string): void;
  /** Ends what is answered, counts it, and takes no more. */
  close(): Promise<void>;
  /** What is missing to use this model, in one line; null when nothing is. */
  lacks(model: string | null): string | null;
  /** Whether what this model costs is known. */
  isPriced(model: string): boolean;
}
