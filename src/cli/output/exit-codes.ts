import { CommanderError } from "commander";
import { isDiskFull } from "../../domain/disk-full.ts";
import { type ErrorCode, WavesmithError } from "../../domain/errors.ts";
import type { BuildStatus } from "../../domain/status.ts";

/** Exit codes of the command line. */
export const exit = { ok: 0, failed: 1, usage: 2, cancelled: 3, environment: 4, waiting: 5 } as const;

/** Returns the exit code for a build with this status. */
export function exitCodeOf(status: BuildStatus): number {
  switch (status) {
    case "completed":
      return exit.ok;
    case "cancelled":
    case "cancelling":
      return exit.cancelled;
    case "waiting":
    case "queued":
    case "running":
      return exit.waiting;
    case "failed":
      return exit.failed;
  }
}

const codes: Partial<Record<ErrorCode, number>> = {
  "plan-invalid": exit.usage,
  usage: exit.usage,
  unsupported: exit.usage,
  "not-found": exit.usage,
  environment: exit.environment,
  database: exit.environment,
  "sandbox-unavailable": exit.environment,
  capacity: exit.environment,
};

export function exitCodeForError(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exit.ok : exit.usage;
  if (error instanceof WavesmithError) return codes[error.code] ?? exit.failed;
  return isDiskFull(error) ? exit.environment : exit.failed;
}
