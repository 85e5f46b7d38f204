const diskFullCodes = new Set(["ENOSPC", "EDQUOT", "53100"]); // the system's codes, and Postgres's disk_full
const diskFullText = /No space left on device|Disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i;

/** Whether a text, such as a program's output, reports a full disk. */
export const saysDiskFull = (text: string): boolean => diskFullText.test(text);

/** Whether an error or one of its causes is a full disk or an exhausted quota. */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isDiskFull)) return true;
  const { code } = error as { code?: unknown };
  if (typeof code === "string" && diskFullCodes.has(code)) return true;
  return saysDiskFull(error.message) || isDiskFull(error.cause);
}
