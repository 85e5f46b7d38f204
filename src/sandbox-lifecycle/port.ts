import type { TenantLimits } from "../domain/access.ts";
import type { DomainEvent } from "../domain/events/events.ts";
import type { IdSource } from "../domain/ids.ts";
import type { MachineRoom, SandboxPolicy } from "../domain/sandbox/sandbox.ts";
import type { Models } from "../models/port.ts";
import type { SandboxDriver, SandboxInfo, SnapshotStore } from "../sandbox/port.ts";
import type { Store } from "../store/port.ts";

interface Clock {
  now(): Date;
}

interface EventSender {
  /** Sends events with their ids; an id that was sent before changes nothing (W13). */
  send(events: readonly DomainEvent[]): Promise<void>;
}

/** The machine sandboxes run on. */
interface Machine {
  room(): Promise<MachineRoom>;
  /** Another one each time the machine starts. */
  boot(): string;
}

interface Logger {
  warn(message: string, facts?: Record<string, unknown>): void;
}

/** The sandboxes of previews. The coordinator knows which of them are needed. */
export interface PreviewSandboxes {
  /** Makes room by putting the longest unused preview to sleep; false when there is none. */
  evict(): Promise<boolean>;
  /** Removes those that no shown preview names, and returns their ids. */
  sweep(driver: SandboxDriver, infos: readonly SandboxInfo[]): Promise<string[]>;
}

/** Everything that the life of sandboxes touches; app.ts provides the real ones. */
export interface LifecyclePorts {
  readonly store: Store;
  readonly models: Pick<Models, "listen">;
  readonly driver: (name: string) => SandboxDriver;
  readonly snapshots: SnapshotStore;
  readonly machine: Machine;
  readonly sandboxPolicy: SandboxPolicy;
  /** The limits of a tenant that has none of its own. */
  readonly tenantLimits: TenantLimits;
  readonly previews: PreviewSandboxes;
  readonly events: EventSender;
  readonly clock: Clock;
  readonly ids: IdSource;
  /**
   * Processors of this machine: how many attempts that compute run at once unless the plan says.
   */
  readonly processors: number;
  /** Called after a job was started or lost, so that its watcher looks at once. */
  readonly wakeWatcher: () => void;
  readonly log: Logger;
}
