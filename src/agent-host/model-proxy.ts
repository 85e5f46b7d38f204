// The agent host's questions to the model proxy about its agent's calls.

const timeoutMs = 10_000;

/** The model proxy as seen in the sandbox, and the attempt's token. */
export interface ProxyAccess {
  readonly url: string;
  readonly token: string;
}

/** Asks the proxy; null without a proxy or an answer. Rejects when it stays silent. */
async function askProxy(proxy: ProxyAccess | null, path: string): Promise<Record<string, unknown> | null> {
  if (proxy === null) return null;
  const { url, token } = proxy;
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}${path}`, { headers, signal: AbortSignal.timeout(timeoutMs) });
  return response.ok ? ((await response.json()) as Record<string, unknown>) : null;
}

/**
 * Whether the agent is silent because a provider is busy, or because the model proxy is down and
 * not answering until it is started again.
 */
export async function waitsForProvider(proxy: ProxyAccess | null): Promise<boolean> {
  try {
    return Number((await askProxy(proxy, "/wavesmith/waiting"))?.waiting) > 0;
  } catch (error) {
    return error instanceof Error && error.name === "TimeoutError";
  }
}

/** The agent's last call to a model, which did not finish. */
export interface UnfinishedCall {
  /** `limit`, `broken`, `unreadable` or `error`. */
  readonly ending: string;
  readonly reason: string;
  /** Whether the conversation was longer than the model's window. */
  readonly overflowed: boolean;
}

/** Returns why the last call did not finish; null if it did, or nobody knows. */
export async function findUnfinishedCall(proxy: ProxyAccess | null): Promise<UnfinishedCall | null> {
  try {
    const { unfinished } = (await askProxy(proxy, "/wavesmith/unfinished")) ?? {};
    if (typeof unfinished !== "object" || unfinished === null) return null;
    const { ending, reason, overflowed } = unfinished as Record<string, unknown>;
    return { ending: String(ending), reason: String(reason), overflowed: overflowed === true };
  } catch {
    return null; // The process that keeps the attempt asks the ledger again.
  }
}
