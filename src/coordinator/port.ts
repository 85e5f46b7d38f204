import type { Agents } from "../agents/port.ts";
import type { TaskSlots } from "../domain/access.ts";
import type { AgentSpec } from "../domain/plan/plan.ts";
import type { Forges } from "../forge/port.ts";
import type { Gates } from "../gates/port.ts";
import type { Models } from "../models/port.ts";
import type { Notifier } from "../notifications/port.ts";
import type { DriverTraits, EgressDenials } from "../sandbox/port.ts";
import type { LifecyclePorts } from "../sandbox-lifecycle/port.ts";
import type { Workspace } from "../workspace/port.ts";

/** The values of this process's secrets. */
interface SecretValues {
  /** Returns the named values; names without a value are left out. */
  values(names: readonly string[]): Record<string, string>;
  /** Returns our own credentials by setting; agents never get them. */
  own(): Record<string, string>;
}

/** The files of drafted plans, for people. */
interface PlanFiles {
  /** Writes the file atomically. */
  write(name: string, text: string): Promise<void>;
  path(name: string): string;
}

/** Everything an operation may use; app.ts provides the real implementations. */
export interface Ports extends LifecyclePorts {
  readonly workspace: Workspace;
  readonly gates: Gates;
  readonly agents: Agents;
  readonly models: Models;
  readonly notifier: Notifier;
  readonly forges: Forges;
  readonly driverTraits: (name: string) => DriverTraits;
  readonly egress: EgressDenials;
  readonly secrets: SecretValues;
  readonly planFiles: PlanFiles;
  /** The agents by their roles, for a build from a brief whose request names none. */
  readonly briefAgents: Readonly<Record<string, AgentSpec>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly taskSlots: TaskSlots;
  /** False where the store shows the rows of one tenant alone (W11). */
  readonly seesAllTenants: boolean;
  /** Names of secrets that plans sent by events may use. */
  readonly eventSecrets: readonly string[];
  /** Repositories, as globs, where people may start builds before any build has delivered there. */
  readonly forgeRepositories: readonly string[];
  /** The machine's total memory. */
  readonly memoryBytes: number;
}
