import type { TakenEvent } from "../coordinator/build/take-events.ts";
import type { Ports } from "../coordinator/port.ts";

/** An event to send: `id` is its dedupe key (W13). */
export interface SentEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

/** Where an Inngest server calls our functions. */
export interface InngestEndpoint {
  /**
   * Answers a request to `/api/inngest`; refuses unsigned calls unless the server is a dev server.
   */
  handle(request: Request): Promise<Response>;
  /** Registers our functions with the server. Rejects with `engine`, retryable, if it refuses. */
  register(): Promise<void>;
  /**
   * Returns where the server calls our functions now. Rejects with `engine`, retryable, if it does
   * not answer.
   */
  registered(): Promise<RegisteredAt>;
  /** Rejects with `engine` if the server refuses our event key. */
  checkEventKey(): Promise<void>;
}

/** `unknown`: the server does not say. `other`: at another URL of this application. */
export type RegisteredAt =
  | { readonly at: "us" | "nowhere" | "unknown" }
  | { readonly at: "other"; readonly url: string };

/** What the server needs from the app. */
export interface ServedApp {
  readonly ports: Ports;
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  send(...events: SentEvent[]): Promise<TakenEvent[]>;
  /** Rejects if the database cannot be reached. */
  ping(): Promise<void>;
  /** Null with the embedded engine, which calls the functions itself. */
  inngestEndpoint(origin: string): InngestEndpoint | null;
}

/** The engine that runs the functions. */
export type ServedEngine =
  | { readonly kind: "embedded"; readonly serveOrigin: string | null }
  | {
      readonly kind: "inngest";
      readonly isDev: boolean;
      /** Null for Inngest's cloud. */
      readonly baseUrl: string | null;
      /** Where others reach us; null for the address we listen on. */
      readonly serveOrigin: string | null;
    };
