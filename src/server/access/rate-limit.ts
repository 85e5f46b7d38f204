import type { Caller } from "../../domain/access.ts";
import { problemWith } from "../problem.ts";

// RL1. Each key has a bucket that holds a minute's worth of requests and refills steadily. Sessions
// share the bucket of their key. It is counted by this process alone.

interface Bucket {
  requests: number;
  /** When it was last refilled, in milliseconds. */
  at: number;
}

const minuteMs = 60_000;
const mostBuckets = 10_000;

/** Counts the requests of each key. */
export interface RateLimit {
  /**
   * Counts one request. Returns 0, or how many milliseconds to wait because there were too many.
   */
  waitMs(caller: Pick<Caller, "keyId">): number;
}

/** Creates the limit; `perMinute` null means none. `now` is in milliseconds. */
export function createRateLimit(perMinute: number | null, now: () => number): RateLimit {
  const buckets = new Map<string, Bucket>();
  return {
    waitMs({ keyId }) {
      if (perMinute === null) return 0;
      const at = now();
      const bucket = buckets.get(keyId) ?? { requests: perMinute, at };
      const refilled = ((at - bucket.at) / minuteMs) * perMinute;
      bucket.requests = Math.min(perMinute, bucket.requests + Math.max(0, refilled));
      bucket.at = at;
      if (!buckets.has(keyId) && buckets.size >= mostBuckets) buckets.clear();
      buckets.set(keyId, bucket);
      if (bucket.requests < 1) return Math.ceil(((1 - bucket.requests) / perMinute) * minuteMs);
      bucket.requests -= 1;
      return 0;
    },
  };
}

/** The answer to a request over the limit. */
export const tooManyRequests = ({ name }: Pick<Caller, "name">, waitMs: number): Response =>
  problemWith(429, "capacity", `the key "${name}" has made too many requests`, {
    remedy: "try again later; WAVESMITH_API_RATE sets how many a minute are allowed",
    retryAfterMs: waitMs,
  });
