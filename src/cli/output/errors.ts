import { CommanderError } from "commander";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Hints } from "./hints.ts";

/**
 * Formats an error for people: what went wrong and what to do. The stack is shown only with
 * `--verbose`.
 */
export function describeError(error: unknown, options: { verbose: boolean; hints: Hints }): string {
  const shown = error instanceof WavesmithError || !isDiskFull(error) ? error : diskFull(error);
  const lines = [`wavesmith: ${options.hints.rewrite(messageOf(shown))}`];
  if (shown instanceof WavesmithError) {
    if (shown.remedy !== null) lines.push(`  remedy: ${options.hints.rewrite(shown.remedy)}`);
  } else if (!options.verbose) lines.push("  this is a bug in Wavesmith; --verbose shows the stack trace");
  if (options.verbose) lines.push(...stackOf(error));
  return lines.join("\n");
}

/** Formats an error as JSON. Anything that is not a WavesmithError is `internal`. */
export function errorJson(error: unknown, hints: Hints): Record<string, unknown> {
  if (error instanceof CommanderError) {
    return { type: "error", code: "usage", message: error.message.replace(/^error: /, ""), remedy: null };
  }
  const shown = error instanceof WavesmithError || !isDiskFull(error) ? error : diskFull(error);
  const { code, remedy } = shown instanceof WavesmithError ? shown : { code: "internal", remedy: null };
  const message = hints.rewrite(messageOf(shown));
  return { type: "error", code, message, remedy: remedy === null ? null : hints.rewrite(remedy) };
}

/** The innermost message names what did not fit; the query around it would not help. */
function diskFull(error: unknown): WavesmithError {
  let inner = error;
  while (inner instanceof Error && isDiskFull(inner.cause)) inner = inner.cause;
  return new WavesmithError("environment", `a disk is full: ${messageOf(inner)}`, {
    remedy: "free some space, then continue the build: wavesmith resume",
    cause: error,
  });
}

function stackOf(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  const own = error.stack === undefined ? [] : [error.stack];
  return error.cause === undefined ? own : [...own, "caused by:", ...stackOf(error.cause)];
}
