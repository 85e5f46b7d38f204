/** Status codes for too many requests or an overloaded provider. */
export const isBusy = (status: number): boolean => status === 429 || status === 529 || status === 503;

const firstWaitMs = 1_000;
const longestWaitMs = 60_000;

export interface Backoff {
  /**
   * Resolves when the provider may be called; all its calls wait together. Rejects when the signal
   * aborts.
   */
  ready(provider: string, call: { readonly owner: string; readonly signal: AbortSignal }): Promise<void>;
  /** How many calls of this owner are waiting for a provider. */
  waiting(owner: string): number;
  /**
   * Records that the provider is busy; `retryAfter` is the header. Returns the wait in
   * milliseconds.
   */
  busy(provider: string, retryAfter: string | null): number;
  calm(provider: string): void;
}

/** Makes all calls to a provider back off together: tasks wait instead of failing. */
export function createBackoff(now: () => number = Date.now): Backoff {
  const waits = new Map<string, { until: number; lastMs: number }>();
  const waiting = new Set<{ readonly owner: string }>();
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
    waiting: (owner) => [...waiting].filter((call) => call.owner === owner).length,
    busy(provider, retryAfter) {
      const before = waits.get(provider);
      // Several calls in flight may get the same answer; count it once.
      const leftMs = (before?.until ?? 0) - now();
      const asked = askedMs(retryAfter, now());
      if (leftMs > 0 && (asked === null || asked <= leftMs)) return leftMs;
      const lastMs = asked ?? Math.min((before?.lastMs ?? firstWaitMs / 2) * 2, longestWaitMs);
      waits.set(provider, { until: now() + lastMs, lastMs });
      return lastMs;
    },
    calm: (provider) => void waits.delete(provider),
  };
}

/** Parses seconds or a date (RFC 9110, 10.2.3); at most ten minutes. */
function askedMs(retryAfter: string | null, nowMs: number): number | null {
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
