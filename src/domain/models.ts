/**
 * `waiting`: waits for room in the budget, nothing is reserved yet; `open`: its cost is reserved
 * and it is running; `cut`: we, the agent or the network ended it before the answer was complete.
 */
export const modelCallStatuses = ["waiting", "open", "done", "failed", "cut"] as const;
export type ModelCallStatus = (typeof modelCallStatuses)[number];

/**
 * How the answer to a call ended. `whole`: the model finished; `limit`: it was cut at its output
 * limit; `broken`: the connection to the provider or the agent broke off; `unreadable`: it is not
 * an answer of a model; `error`: the provider answered an error; `left`: the agent hung up on a
 * call that its turn did not wait for.
 */
export const callEndings = ["whole", "limit", "broken", "unreadable", "error", "left"] as const;
export type CallEnding = (typeof callEndings)[number];

/** `compatible`: any endpoint that speaks OpenAI's chat completions. */
export const providerNames = ["anthropic", "openai", "google", "compatible"] as const;
/** `compatible-NAME`: another one, under a name from the settings. */
export type ProviderName = (typeof providerNames)[number] | `compatible-${string}`;

export const isProviderName = (name: string | null): name is ProviderName =>
  providerNames.some((known) => known === name) || /^compatible-[a-z0-9-]+$/.test(name ?? "");

/** The most tokens that a model takes and returns; null if unknown. */
export interface ModelLimits {
  readonly contextTokens: number | null;
  readonly outputTokens: number | null;
}

/**
 * Tools that a provider can run itself during a call. They reach beyond the sandbox's network, so a
 * plan must allow each by name (`modelTools`) unless its network is `open`.
 */
export const modelTools = [
  "web_search",
  "web_fetch",
  "code_execution",
  "mcp",
  "image_generation",
  "computer_use",
  /** Files stored at the provider. */
  "files",
  /** Images and documents that the provider fetches from a URL. */
  "urls",
  /** Conversations and prompts stored at the provider. */
  "stored",
] as const;
export type ModelTool = (typeof modelTools)[number];

/** The tools that the providers of a build's models may use. */
export type ProviderTools = "all" | readonly ModelTool[];

/** The tokens of one call, as its provider counted them. */
export interface ModelUsage {
  /** All input tokens, cached or not. */
  readonly inputTokens: number;
  /** The part of `inputTokens` read from the provider's cache. */
  readonly cachedTokens: number;
  /** The part of `inputTokens` written to the provider's cache. */
  readonly cacheWriteTokens: number;
  /** The part of `cacheWriteTokens` cached for an hour, which costs more; absent: none. */
  readonly cacheWriteLongTokens?: number;
  /** Whether the provider ran it as a batch, at batch prices. */
  readonly isBatch?: boolean;
  readonly outputTokens: number;
}

/** The total spent on model calls. */
export interface Spending {
  readonly calls: number;
  /** Running calls; no other sum includes their cost. */
  readonly openCalls: number;
  /** Calls that wait for room in the budget. */
  readonly waitingCalls: number;
  /** Calls whose usage the provider did not report; it was estimated from the traffic. */
  readonly estimatedCalls: number;
  /** Tokens as budgets count them: a call lost with its process counts at its maximum. */
  readonly tokens: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Millionths of a USD for calls whose price is known. */
  readonly microUsd: number;
  /** Calls whose price is unknown; no sum includes their cost. */
  readonly unpricedCalls: number;
}

export const nothingSpent: Spending = {
  calls: 0,
  openCalls: 0,
  waitingCalls: 0,
  estimatedCalls: 0,
  tokens: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  microUsd: 0,
  unpricedCalls: 0,
};

/** The sum of spending over many builds. */
export type SpendingSum = Pick<Spending, "tokens" | "microUsd" | "unpricedCalls">;

/** Adds up several spendings. */
export function totalSpending(parts: readonly Spending[]): Spending {
  if (parts.length === 0) return nothingSpent;
  const names = Object.keys(nothingSpent) as (keyof Spending)[];
  const sum: Record<keyof Spending, number> = { ...nothingSpent };
  for (const part of parts) for (const name of names) sum[name] += part[name];
  return sum;
}

/** Parses `provider:model`; a bare name has no provider. */
export function parseModel(text: string): { readonly provider: string | null; readonly model: string } {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: null, model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}
