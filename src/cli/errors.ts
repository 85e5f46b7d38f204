import { CommanderError } from "commander";
import { type ErrorCode, messageOf, WavesmithError } from "../domain/errors.ts";
import type { BuildStatus } from "../domain/status.ts";
import type { Hints } from "./hints.ts";

/** Exit codes (contract 2). */
export const exit = { ok: 0, failed: 1, usage: 2, cancelled: 3, environment: 4, waiting: 5 } as const;

/** How a command about a build that stands at `status` ends. */
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
};

export function exitCodeForError(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exit.ok : exit.usage;
  return error instanceof WavesmithError ? (codes[error.code] ?? exit.failed) : exit.failed;
}

/** An error as a user reads it: what went wrong, what to do about it; where in our code only when asked for. */
export function describeError(error: unknown, options: { verbose: boolean; hints: Hints }): string {
  const lines = [`wavesmith: ${options.hints.rewrite(messageOf(error))}`];
  if (error instanceof WavesmithError) {
    if (error.remedy !== null) lines.push(`  remedy: ${options.hints.rewrite(error.remedy)}`);
  } else if (!options.verbose) lines.push("  this is a fault of Wavesmith's own; --verbose shows where it is");
  if (options.verbose) lines.push(...stackOf(error));
  return lines.join("\n");
}

function stackOf(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  const own = error.stack === undefined ? [] : [error.stack];
  return error.cause === undefined ? own : [...own, "caused by:", ...stackOf(error.cause)];
}
