import type { TakenEvent } from "../coordinator/build/take-events.ts";
import type { Ports } from "../coordinator/port.ts";

/** An event as it is sent: `id` is its dedupe key (W13). */
export interface SentEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

/** Where an Inngest server calls our functions. */
export interface InngestEndpoint {
  /**
   * Answers a request to `/api/inngest`; unsigned calls are refused unless the server is a dev
   * server.
   */
  handle(request: Request): Promise<Response>;
  /**
   * Tells the server where our functions are. Rejects with `engine`, retryable, when it does not
   * take that.
   */
  register(): Promise<void>;
  /**
   * Where the server calls our functions now. Rejects with `engine`, retryable, when it does not
   * answer.
   */
  registered(): Promise<RegisteredAt>;
  /** Rejects with `engine` when the server refuses our event key. */
  checkEventKey(): Promise<void>;
}

/** `unknown`: it does not tell. `other`: at another URL, of this application. */
export type RegisteredAt =
  | { readonly at: "us" | "nowhere" | "unknown" }
  | { readonly at: "other"; readonly url: string };

/** What the server needs of the wired parts. */
export interface ServedApp {
  readonly ports: Ports;
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  send(...events: SentEvent[]): Promise<TakenEvent[]>;
  /** Rejects when the database cannot be reached. */
  ping(): Promise<void>;
  /** Null with the embedded engine, which calls the functions itself. */
  inngestEndpoint(origin: string): InngestEndpoint | null;
}

/** What runs the functions. */
export type ServedEngine =
  | { readonly kind: "embedded"; readonly serveOrigin: string | null }
  | {
      readonly kind: "inngest";
      readonly isDev: boolean;
      /** Null: Inngest's cloud. */
      readonly baseUrl: string | null;
      /** Where others reach us; null: the address we listen on. */
      readonly serveOrigin: string | null;
    };
