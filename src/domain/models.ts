/** `open`: reserved and under way; `cut`: ended by us or by the agent before its answer was whole. */
export const modelCallStatuses = ["open", "done", "failed", "cut"] as const;
export type ModelCallStatus = (typeof modelCallStatuses)[number];

/** Tokens of one call, as its provider counted them. */
export interface ModelUsage {
  /** Everything read, cached or not. */
  readonly inputTokens: number;
  /** Of `inputTokens`, read from the provider's cache. */
  readonly cachedTokens: number;
  /** Of `inputTokens`, written to the provider's cache. */
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
}

/** Parses `provider:model`; a bare name has no provider. */
export function parseModel(text: string): { readonly provider: string | null; readonly model: string } {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: null, model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}
