import type { Config } from "../config.ts";
import type { DomainEvent } from "../domain/events/events.ts";
import type { IdSource } from "../domain/ids.ts";

export interface AppOptions {
  readonly config: Config;
  /** Receives warnings; never standard output. */
  readonly warn: (message: string) => void;
  /** Receives every event of builds and sandboxes once it is sent. */
  readonly onEvent?: (event: DomainEvent) => void;
  readonly clock?: () => Date;
  readonly ids?: IdSource;
  readonly crashPoint?: (name: string) => void | Promise<void>;
  /**
   * How long sandboxes and the embedded Postgres keep running after all their users were killed.
   */
  readonly orphanLimitMs?: number;
}
