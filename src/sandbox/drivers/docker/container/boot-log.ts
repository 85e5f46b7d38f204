// The log of a booting container: one line of JSON per phase (sandbox-image/entrypoint), then the
// guest's own lines.

/** A boot phase that failed, with its own remedy. */
export interface FailedPhase {
  readonly phase: string;
  readonly message: string;
  readonly remedy: string;
}

interface Line {
  readonly phase?: string;
  readonly ok?: boolean;
  readonly ready?: boolean;
  readonly message?: string;
  readonly remedy?: string;
}

/** Returns the phase that failed; null when none did. */
export function failedPhase(log: string): FailedPhase | null {
  const failed = linesOf(log)
    .map(parsed)
    .find((line) => line?.ok === false);
  if (failed?.phase === undefined) return null;
  const { phase, message = "it failed", remedy = "wavesmith sandbox image build" } = failed;
  return { phase, message, remedy };
}

/** Returns every line except reports of success. */
export function complaints(log: string): string[] {
  return linesOf(log).filter((line) => {
    const report = parsed(line);
    return report?.ok !== true && report?.ready !== true;
  });
}

const linesOf = (log: string): string[] => log.split(/\r?\n/).filter((line) => line.trim() !== "");

function parsed(line: string): Line | null {
  try {
    return JSON.parse(line) as Line | null;
  } catch {
    return null; // Not written by the entrypoint.
  }
}
