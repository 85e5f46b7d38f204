/**
 * `waiting`: nothing is reserved until other calls leave room in the budget; `open`: reserved and
 * under way; `cut`: ended by us, the agent or the network before its answer was whole.
 */
export const modelCallStatuses = ["waiting", "open", "done", "failed", "cut"] as const;
export type ModelCallStatus = (typeof modelCallStatuses)[number];

/** `compatible`: any place that speaks OpenAI's chat completions. */
export const providerNames = ["anthropic", "openai", "google", "compatible"] as const;
export type ProviderName = (typeof providerNames)[number];

/**
 * What a provider can do by itself for a call, beyond answering from what the call holds. Each of
 * them leaves the network that a sandbox is held to, so a plan has to allow it by name
 * (`modelTools`), unless its network is `open`.
 */
export const modelTools = [
  "web_search",
  "web_fetch",
  "code_execution",
  "mcp",
  "image_generation",
  "computer_use",
  /** Files that are kept at the provider. */
  "files",
  /** Images and documents that the provider fetches from a URL. */
  "urls",
  /** Conversations and prompts that are kept at the provider. */
  "stored",
] as const;
export type ModelTool = (typeof modelTools)[number];

/** What the providers of a build's models may do by themselves. */
export type ProviderTools = "all" | readonly ModelTool[];

/** Tokens of one call, as its provider counted them. */
export interface ModelUsage {
  /** Everything read, cached or not. */
  readonly inputTokens: number;
  /** Of `inputTokens`, read from the provider's cache. */
  readonly cachedTokens: number;
  /** Of `inputTokens`, written to the provider's cache. */
  readonly cacheWriteTokens: number;
  /** Of `cacheWriteTokens`, those that are kept for an hour, which costs more; absent: none. */
  readonly cacheWriteLongTokens?: number;
  /** The provider took its time for it, at the price of a batch. */
  readonly isBatch?: boolean;
  readonly outputTokens: number;
}

/** What calls of models took together. */
export interface Spending {
  readonly calls: number;
  /** Of `calls`, those under way: what they take is in no other sum. */
  readonly openCalls: number;
  /** Of `calls`, those that wait for room in the budget. */
  readonly waitingCalls: number;
  /**
   * Of `calls`, those whose provider did not say what they took: it was estimated from what passed.
   */
  readonly estimatedCalls: number;
  /** As budgets count them: a call that was lost with the process that made it, at its worst. */
  readonly tokens: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Millionths of a USD, of the calls whose price is known. */
  readonly microUsd: number;
  /** Calls that took tokens of unknown price: what they cost is in no sum. */
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

/** What is known of many builds together. */
export type SpendingSum = Pick<Spending, "tokens" | "microUsd" | "unpricedCalls">;

/** The sum of several. */
export function totalSpending(parts: readonly Spending[]): Spending {
  const names = Object.keys(nothingSpent) as (keyof Spending)[];
  const sum = (name: keyof Spending): number => parts.reduce((total, part) => total + part[name], 0);
  return Object.fromEntries(names.map((name) => [name, sum(name)])) as Record<keyof Spending, number>;
}

/** Parses `provider:model`; a bare name has no provider. */
export function parseModel(text: string): { readonly provider: string | null; readonly model: string } {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: null, model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}
