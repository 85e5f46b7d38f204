import type { Ports } from "../coordinator/port.ts";

/** An event as it is sent: `id` is its dedupe key (W13). */
export interface SentEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

/** Where an Inngest server calls our functions. */
export interface InngestEndpoint {
  /** Answers a request to `/api/inngest`; unsigned calls are refused unless the server is a dev server. */
  handle(request: Request): Promise<Response>;
  /** Tells the server where our functions are. Rejects with `engine`, retryable, when it does not answer. */
  register(): Promise<void>;
  /** Whether the server knows us still: a dev server that was started again does not. */
  isKnown(): Promise<boolean>;
}

/** What the server needs of the wired parts. */
export interface ServedApp {
  readonly ports: Ports;
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  send(...events: SentEvent[]): Promise<void>;
  /** Rejects when the database cannot be reached. */
  ping(): Promise<void>;
  /** Null with the embedded engine, which calls the functions itself. */
  inngestEndpoint(origin: string): InngestEndpoint | null;
}

/** What runs the functions. */
export type ServedEngine =
  | { readonly kind: "embedded"; readonly eventKey: string | null }
  | {
      readonly kind: "inngest";
      readonly isDev: boolean;
      /** Null: Inngest's cloud. */
      readonly baseUrl: string | null;
      readonly eventKey: string;
      /** Where Inngest reaches us; null: the address we listen on. */
      readonly serveOrigin: string | null;
    };
