import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { GarbageItem } from "../api/garbage.ts";
import type { ShownSetting } from "../api/settings.ts";
import type { TakenEvent } from "../coordinator/build/request/take-events.ts";
import type { Ports } from "../coordinator/port.ts";
import type { DomainEvent } from "../domain/events/events.ts";
import type { Measure } from "../domain/measures.ts";

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

/** An event as followers see it; `seq` is its place among those of its subject. */
export interface FedEvent {
  readonly seq: number;
  readonly eventId: string;
  readonly name: string;
  readonly createdAt: Date;
  readonly data: Record<string, unknown>;
}

/** The events of builds and projects, in an order that survives restarts. */
export interface ServedFeed {
  /** Null if the subject has no event with the id `after`. */
  read(
    of: { readonly buildId: string } | { readonly projectId: string },
    after: number | null,
    limit: number,
  ): Promise<{ readonly events: readonly FedEvent[]; readonly hasMore: boolean } | null>;
  onCommit(wake: () => void): { stop(): void };
}

/** Whose rows a request may see. */
export interface ServedTenant {
  readonly tenantId: string;
  /** The tenant's name. */
  readonly tenant: string;
}

/** How this installation signs in to GitHub. */
export type ServedSignIn = Ports["forges"]["github"];

/** The parts of the app that the server uses. */
export interface ServedApp {
  readonly config: {
    readonly sandboxDriver: string;
    readonly dataDir: string;
    readonly settings: readonly ShownSetting[];
    /** Private hosts from which a plan may be fetched. */
    readonly planHosts: readonly string[];
    readonly retention: {
      /** How long builds are kept; null: for ever. */
      readonly buildsMs: number | null;
    };
  };
  /** The tenant whose rows `ports` and `feed` show. */
  readonly tenant: ServedTenant;
  /**
   * Returns the app as a tenant's requests see it (W11). Fails with `environment` for any but the
   * default tenant if the database cannot keep tenants apart.
   */
  forTenant(tenant: ServedTenant): Promise<ServedApp>;
  /**
   * The ports of operations that count across tenants, such as who may start a sandbox. They see
   * every row: give them only ids that `ports` found.
   */
  readonly allTenants: Ports;
  readonly feed: ServedFeed;
  /** Sends the events that operations committed outside a function. */
  flush(): Promise<void>;
  readonly ports: Ports;
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  send(...events: DomainEvent[]): Promise<TakenEvent[]>;
  /** Measures the builds, the engine's queue and the database's connections. */
  measures(): Promise<Measure[]>;
  /** The data that has outlived its retention settings. */
  readonly garbage: {
    /** Finds what would go now, with its size. */
    find(): Promise<readonly GarbageItem[]>;
    /** Removes it; returns null if another process is already collecting. */
    collect(): Promise<readonly GarbageItem[] | null>;
  };
  /** Rejects if the database cannot be reached. */
  ping(): Promise<void>;
  /** Null with the embedded engine, which calls the functions itself. */
  inngestEndpoint(origin: string): InngestEndpoint | null;
}

/** The abilities of the server's machine, as `doctor` and `agents` report them. */
export interface ServedMachine {
  check(): Promise<{ readonly ok: boolean; readonly checks: readonly object[] }>;
  tryAgents(): Promise<{ readonly ok: boolean; readonly agents: readonly object[] }>;
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

/** Answers for the hosts of previews, so that nothing else of the server does. */
export interface PreviewHosts {
  /** Takes a request if its host is one of a preview; otherwise returns false. */
  answer(request: IncomingMessage, response: ServerResponse): boolean;
  /** The same for a request that asks for another protocol, such as WebSocket. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
}
