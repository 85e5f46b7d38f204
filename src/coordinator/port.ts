import type { Agents } from "../agents/port.ts";
import type { IdSource } from "../domain/ids.ts";
import type { AgentSpec } from "../domain/plan.ts";
import type { MachineRoom, SandboxPolicy } from "../domain/sandbox.ts";
import type { Gates } from "../gates/port.ts";
import type { Models } from "../models/port.ts";
import type { EgressDenials, SandboxDriver, SnapshotStore } from "../sandbox/port.ts";
import type { Store } from "../store/port.ts";
import type { Workspace } from "../workspace/port.ts";

interface Clock {
  now(): Date;
}

interface EventSender {
  /** Sends events with their ids; an id that was sent before changes nothing (W13). */
  send(events: readonly { name: string; id: string; data: Record<string, unknown> }[]): Promise<void>;
}

/** Values of the secrets this process was given. */
interface SecretValues {
  /** The named ones; a name without a value is left out. */
  values(names: readonly string[]): Record<string, string>;
  /** What we sign in with ourselves, by setting; agents are never given it. */
  own(): Record<string, string>;
}

/** Plans that planners made, written out for people. */
interface PlanFiles {
  /** Writes the file whole, or not at all. */
  write(name: string, text: string): Promise<void>;
  path(name: string): string;
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

/** Everything a verb may touch; app.ts hands in the real things. */
export interface Ports {
  readonly store: Store;
  readonly workspace: Workspace;
  readonly gates: Gates;
  readonly agents: Agents;
  readonly models: Models;
  readonly driver: (name: string) => SandboxDriver;
  readonly snapshots: SnapshotStore;
  readonly egress: EgressDenials;
  readonly machine: Machine;
  readonly sandboxPolicy: SandboxPolicy;
  readonly events: EventSender;
  readonly secrets: SecretValues;
  readonly planFiles: PlanFiles;
  /** What does the work of a build from a brief whose request names no agents. */
  readonly briefAgent: AgentSpec | null;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Names of secrets that plans sent by events may use. */
  readonly eventSecrets: readonly string[];
  readonly clock: Clock;
  readonly ids: IdSource;
  /**
   * Processors of this machine: how many attempts that compute run at once unless the plan says.
   */
  readonly processors: number;
  /** Memory of this machine, used or not. */
  readonly memoryBytes: number;
  /** Called after a job was started, so that its watcher looks at once. */
  readonly wakeWatcher: () => void;
  readonly log: Logger;
}
