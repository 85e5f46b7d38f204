import { z } from "zod";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { ModelUsage } from "../domain/models.ts";

// USD per million tokens, as the providers published them. A model that is not here has no known price, which is not zero.

interface Rate {
  readonly input: number;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly output: number;
}

export interface Price extends Rate {
  readonly provider: string;
  /** A model has this name, or begins with it and goes on with `-` or `@`: dated versions cost the same. */
  readonly model: string;
  /** What a call costs whose input is above so many tokens, where that is more. */
  readonly long?: Rate & { readonly aboveTokens: number };
}

const price = (provider: string, model: string, input: number, output: number, cached: number, cacheWrite = input) => ({
  provider,
  model,
  input,
  cached,
  cacheWrite,
  output,
});

const above200k = (input: number, output: number, cached: number) => ({
  aboveTokens: 200_000,
  input,
  cached,
  cacheWrite: input,
  output,
});

const published: readonly Price[] = [
  price("anthropic", "claude-opus-4-5", 5, 25, 0.5, 6.25),
  price("anthropic", "claude-opus-4-1", 15, 75, 1.5, 18.75),
  price("anthropic", "claude-opus-4", 15, 75, 1.5, 18.75),
  price("anthropic", "claude-sonnet-4-5", 3, 15, 0.3, 3.75),
  price("anthropic", "claude-sonnet-4", 3, 15, 0.3, 3.75),
  price("anthropic", "claude-haiku-4-5", 1, 5, 0.1, 1.25),
  price("anthropic", "claude-3-5-haiku", 0.8, 4, 0.08, 1),
  price("openai", "gpt-5", 1.25, 10, 0.125),
  price("openai", "gpt-5-codex", 1.25, 10, 0.125),
  price("openai", "gpt-5-mini", 0.25, 2, 0.025),
  price("openai", "gpt-5-nano", 0.05, 0.4, 0.005),
  price("openai", "gpt-4.1", 2, 8, 0.5),
  price("openai", "gpt-4.1-mini", 0.4, 1.6, 0.1),
  price("openai", "o4-mini", 1.1, 4.4, 0.275),
  { ...price("google", "gemini-3.1-pro-preview", 2, 12, 0.2), long: above200k(4, 18, 0.4) },
  { ...price("google", "gemini-3-pro-preview", 2, 12, 0.2), long: above200k(4, 18, 0.4) },
  price("google", "gemini-3-flash-preview", 0.5, 3, 0.05),
  { ...price("google", "gemini-2.5-pro", 1.25, 10, 0.125), long: above200k(2.5, 15, 0.25) },
  price("google", "gemini-2.5-flash", 0.3, 2.5, 0.03),
  price("google", "gemini-2.5-flash-lite", 0.1, 0.4, 0.01),
];

/** What a person says models cost; it goes before what is published. */
export type PriceTable = readonly Price[];

const usd = z.number().nonnegative();
const tableSchema = z.array(
  z.object({ provider: z.string(), model: z.string(), input: usd, cached: usd, cacheWrite: usd, output: usd }).partial({
    cached: true,
    cacheWrite: true,
  }),
);

/** Reads a person's table; what is said of no cache costs what reading does. Fails with `usage`. */
export function readPrices(text: string, file: string): PriceTable {
  try {
    return tableSchema.parse(JSON.parse(text)).map(({ cached, cacheWrite, ...entry }) => ({
      ...entry,
      cached: cached ?? entry.input,
      cacheWrite: cacheWrite ?? entry.input,
    }));
  } catch (cause) {
    throw new WavesmithError("usage", `the prices in ${file} cannot be read: ${messageOf(cause)}`, {
      remedy: 'write [{ "provider": "openai", "model": "gpt-x", "input": 1, "output": 8 }], in USD per million tokens',
      cause,
    });
  }
}

/** The price of a model; null when nobody knows it. What a person says goes before what is published. */
export function priceOf(
  provider: string,
  model: string,
  { own = [], isSubscription = false }: { own?: PriceTable; isSubscription?: boolean } = {},
): Price | null {
  const fits = (entry: Price): boolean => {
    if (entry.provider !== provider || !model.startsWith(entry.model)) return false;
    const rest = model.slice(entry.model.length);
    return rest === "" || /^[-@](\d{6,8}|latest)/.test(rest);
  };
  return own.find(fits) ?? (isSubscription ? null : (published.find(fits) ?? null));
}

/** What a million tokens of a call with so many tokens of input cost. */
export const rateOf = ({ long, ...usual }: Price, inputTokens: number): Rate =>
  long !== undefined && inputTokens > long.aboveTokens ? long : usual;

/** Millionths of a USD, rounded up. */
export function costMicroUsd(price: Price, usage: ModelUsage): number {
  const rate = rateOf(price, usage.inputTokens);
  const plain = usage.inputTokens - usage.cachedTokens - usage.cacheWriteTokens;
  const sum =
    Math.max(0, plain) * rate.input +
    usage.cachedTokens * rate.cached +
    usage.cacheWriteTokens * rate.cacheWrite +
    usage.outputTokens * rate.output;
  return Math.ceil(sum - 1e-9);
}
