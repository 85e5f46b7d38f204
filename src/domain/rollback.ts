import type { BuildStatus, TaskStatus, WaveStatus } from "./status.ts";

/** The state that a rollback changed, as it was before; times are in ISO 8601. */
export interface BeforeRollback {
  readonly build: {
    readonly status: BuildStatus;
    readonly reason: string | null;
    readonly headSha: string | null;
    readonly endedAt: string | null;
  };
  readonly waves: readonly {
    readonly id: string;
    readonly status: WaveStatus;
    readonly reason: string | null;
    readonly deliveredAt: string | null;
    readonly endedAt: string | null;
  }[];
  readonly tasks: readonly {
    readonly id: string;
    readonly status: TaskStatus;
    readonly commitSha: string | null;
    readonly retriesUsed: number;
    readonly losses: number;
    readonly reason: string | null;
    readonly endedAt: string | null;
  }[];
}
