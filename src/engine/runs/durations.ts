import { WavesmithError } from "../../domain/errors.ts";

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/**
 * Returns when a `Sleep` op's timer is due, in ms since 1970. The op's name is a duration such as
 * `1h2m`, or a date.
 */
export function sleepEndMs(name: string, nowMs: number): number {
  if (/^(?:\d+(?:ms|[smhdw]))*$/.test(name)) {
    let durationMs = 0;
    for (const [, count, unit] of name.matchAll(/(\d+)(ms|[smhdw])/g)) durationMs += Number(count) * unitMs[unit!]!;
    return nowMs + durationMs;
  }
  const dateMs = Date.parse(name);
  if (Number.isNaN(dateMs))
    throw new WavesmithError("engine", `the sleep ${JSON.stringify(name)} is neither a duration nor a date`);
  return dateMs;
}

/**
 * Returns the delay in a `retry-after` header, which holds seconds or a date (RFC 9110, 10.2.3), or
 * null when there is none.
 */
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  if (header === null || header === "") return null;
  if (/^\d+(?:\.\d+)?$/.test(header)) return Number(header) * 1_000;
  const dateMs = Date.parse(header);
  return Number.isNaN(dateMs) ? null : Math.max(0, dateMs - nowMs);
}
