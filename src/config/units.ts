const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const unitsBytes: Readonly<Record<string, number>> = { MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 };

/** Returns a setting's time in milliseconds; null for `never`. */
export const durationMsOf = (text: string): number | null =>
  text === "never" || text === "0" ? null : Number(text.slice(0, -1)) * unitsMs[text.slice(-1)]!;
/** Returns a setting's size in bytes. */
export const sizeBytesOf = (text: string): number => Number(text.slice(0, -2)) * unitsBytes[text.slice(-2)]!;
