import { getKnown } from "../domain/known.ts";

const unitsMs = new Map(Object.entries({ s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }));
const unitsBytes = new Map(Object.entries({ MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }));

/** Returns a setting's time in milliseconds; null for `never`. */
export const durationMsOf = (text: string): number | null =>
  text === "never" || text === "0" ? null : Number(text.slice(0, -1)) * getKnown(unitsMs, text.slice(-1));
/** Returns a setting's size in bytes. */
export const sizeBytesOf = (text: string): number => Number(text.slice(0, -2)) * getKnown(unitsBytes, text.slice(-2));
