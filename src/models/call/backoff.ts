/** Whether a status code means too many requests or an overloaded provider. */
export const isBusyStatus = (status: number): boolean => status === 429 || status === 529 || status === 503;

/** Status codes of a provider that failed; repeating the call usually helps, sooner or later. */
export const isFailingStatus = (status: number): boolean => status === 500 || status === 502 || status === 504;

const firstWaitMs = 1_000;
const maxWaitMs = 60_000;

export interface Backoff {
  /** Resolves when the provider may be called again; rejects when the signal aborts. */
  ready(provider: string, call: { readonly owner: string; readonly signal: AbortSignal }): Promise<void>;
  /** Makes one call wait for this long; it counts as waiting. Rejects when the signal aborts. */
  pause(ms: number, call: { readonly owner: string; readonly signal: AbortSignal }): Promise<void>;
  /** How many calls of this owner are waiting for a provider. */
  waiting(owner: string): number;
  /**
   * Records that the provider is busy; `retryAfter` is the header. Returns the wait in
   * milliseconds.
   */
  busy(provider: string, retryAfter: string | null): number;
  calm(provider: string): void;
  /** Records a failed call of this owner. */
  failed(provider: string, owner: string): void;
  /** Returns for how many milliseconds this owner's calls have failed; 0 if the last one worked. */
  failingMs(provider: string, owner: string): number;
  /** Records a call that worked. */
  works(provider: string, owner: string): void;
}

/** Failures that are further apart have nothing to do with each other. */
const forgottenMs = 10 * 60_000;

/** Makes all calls to a provider back off together: tasks wait instead of failing. */
export function createBackoff(now: () => number = Date.now): Backoff {
  const waits = new Map<string, { until: number; lastMs: number }>();
  const waiting = new Set<{ readonly owner: string }>();
  const failures = new Map<string, { readonly since: number; last: number }>();
  const keyOf = (provider: string, owner: string): string => `${provider} ${owner}`;
  const forget = (): void => {
    for (const [key, { last }] of failures) if (now() - last > forgottenMs) failures.delete(key);
  };
  return {
    async ready(provider, call) {
      waiting.add(call);
      try {
        for (;;) {
          const leftMs = (waits.get(provider)?.until ?? 0) - now();
          if (leftMs <= 0) return;
          await wait(leftMs, call.signal);
        }
      } finally {
        waiting.delete(call);
      }
    },
    async pause(ms, call) {
      waiting.add(call);
      await wait(ms, call.signal).finally(() => waiting.delete(call));
    },
    waiting: (owner) => [...waiting].filter((call) => call.owner === owner).length,
    busy(provider, retryAfter) {
      const before = waits.get(provider);
      // Several calls in flight may get the same answer; count it once.
      const leftMs = (before?.until ?? 0) - now();
      const requestedMs = parseRetryAfter(retryAfter, now());
      if (leftMs > 0 && (requestedMs === null || requestedMs <= leftMs)) return leftMs;
      const lastMs = requestedMs ?? Math.min((before?.lastMs ?? firstWaitMs / 2) * 2, maxWaitMs);
      waits.set(provider, { until: now() + lastMs, lastMs });
      return lastMs;
    },
    calm: (provider) => void waits.delete(provider),
    failed(provider, owner) {
      forget();
      const key = keyOf(provider, owner);
      const { since } = failures.get(key) ?? { since: now() };
      failures.set(key, { since, last: now() });
    },
    failingMs(provider, owner) {
      forget();
      const failure = failures.get(keyOf(provider, owner));
      return failure === undefined ? 0 : now() - failure.since;
    },
    works: (provider, owner) => void failures.delete(keyOf(provider, owner)),
  };
}

/** Parses the wait in a `retry-after` header: seconds or a date (RFC 9110, 10.2.3). */
function parseRetryAfter(retryAfter: string | null, nowMs: number): number | null {
  if (retryAfter === null) return null;
  const ms = /^\d+(\.\d+)?$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - nowMs;
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, 600_000) : null;
}

const wait = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
