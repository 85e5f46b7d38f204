/**
 * Matches durations such as `1h30m`, `90s` and `500ms`: hours, minutes, seconds and milliseconds,
 * in this order, at least one of them.
 */
export const durationPattern = /^(?=\d)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?$/;

/** Node's timers end at 2^31 ms, a little under 25 days. */
export const maxDurationMs = 24 * 24 * 3_600_000;

/** Parses a duration such as `1h30m` into milliseconds; null when the text is not a duration. */
export function parseDuration(text: string): number | null {
  const parts = durationPattern.exec(text);
  if (parts === null) return null;
  const [hours = 0, minutes = 0, seconds = 0, milliseconds = 0] = parts.slice(1).map((part) => Number(part ?? 0));
  return hours * 3_600_000 + minutes * 60_000 + seconds * 1_000 + milliseconds;
}

/** Formats a duration as briefly as possible: `1h30m`, `20m`, `500ms`. */
export function formatDuration(ms: number): string {
  const units = [
    [Math.floor(ms / 3_600_000), "h"],
    [Math.floor(ms / 60_000) % 60, "m"],
    [Math.floor(ms / 1_000) % 60, "s"],
    [ms % 1_000, "ms"],
  ] as const;
  const text = units.map(([count, unit]) => (count === 0 ? "" : `${count}${unit}`)).join("");
  return text === "" ? "0s" : text;
}
