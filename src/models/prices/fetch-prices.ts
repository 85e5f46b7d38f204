import { z } from "zod";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { PriceList } from "./price-list.ts";

// The public list is LiteLLM's: USD per token, by model, including caches of both lifetimes, long
// contexts and batches at the large providers.

const usd = z.number().nonnegative().max(1).optional();
const modelSchema = z.object({
  litellm_provider: z.string(),
  mode: z.string().optional(),
  input_cost_per_token: usd,
  output_cost_per_token: usd,
  cache_read_input_token_cost: usd,
  cache_creation_input_token_cost: usd,
  cache_creation_input_token_cost_above_1hr: usd,
  input_cost_per_token_batches: usd,
  output_cost_per_token_batches: usd,
});
const providers: Readonly<Record<string, string>> = { anthropic: "anthropic", openai: "openai", gemini: "google" };
const modes = new Set(["chat", "responses", undefined]);

const maxListBytes = 32 * 1024 * 1024;
const timeoutMs = 60_000;
/** With fewer prices than this it is not a price list. */
const minPrices = 3;

/**
 * Fetches a public list of prices. Fails with `environment` when it is unreachable or has another
 * form.
 */
export async function fetchPrices(url: string, today: Date): Promise<PriceList> {
  const prices = pricesIn(await fetchJson(url));
  if (prices.length < minPrices) throw unusable(url, `it has only ${prices.length} prices of models that we can call`);
  return { date: today.toISOString().slice(0, 10), source: url, prices };
}

async function fetchJson(url: string): Promise<unknown> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) }).catch((error: Error) => {
      // The error itself says only "fetch failed".
      throw new Error(`it cannot be reached: ${messageOf(error.cause ?? error)}`);
    });
    if (!response.ok) throw new Error(`it answers ${response.status}`);
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    for await (const chunk of response.body ?? []) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxListBytes) throw new Error("it is larger than 32 MiB");
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch (error) {
    throw unusable(url, messageOf(error), error);
  }
}

const unusable = (url: string, reason: string, cause?: unknown): WavesmithError =>
  new WavesmithError("environment", `the list of prices at ${url} cannot be used: ${reason}`, {
    remedy: "set WAVESMITH_PRICES_URL to a list in LiteLLM's format, or WAVESMITH_PRICES to your own file",
    cause,
  });

/** Reads the prices and skips entries of another form, because some describe other things. */
function pricesIn(list: unknown): PriceList["prices"] {
  if (typeof list !== "object" || list === null) return [];
  return Object.entries(list).flatMap(([name, value]) => {
    const { data } = modelSchema.safeParse(value);
    const provider = data === undefined ? undefined : providers[data.litellm_provider];
    if (data === undefined || provider === undefined || !modes.has(data.mode)) return [];
    const usual = rateIn(value, "");
    if (usual === null) return [];
    const model = name.slice(name.indexOf("/") + 1);
    const { input_cost_per_token_batches: input, output_cost_per_token_batches: output } = data;
    const batch =
      input === undefined || output === undefined ? {} : { batch: { input: million(input), output: million(output) } };
    return [{ provider, model, ...usual, ...longRateIn(value), ...batch }];
  });
}

/** Converts to USD per million tokens and rounds off the digits that the division adds. */
const million = (cost: number): number => Number((cost * 1e6).toPrecision(10));

function rateIn(value: unknown, suffix: string) {
  const fields = value as Readonly<Record<string, unknown>>;
  const cost = (name: string): number | null => {
    const value = fields[`${name}${suffix}`];
    return typeof value === "number" && value >= 0 && value <= 1 ? million(value) : null;
  };
  const [input, output] = [cost("input_cost_per_token"), cost("output_cost_per_token")];
  if (input === null || output === null) return null;
  const cacheWrite = cost("cache_creation_input_token_cost") ?? input;
  return {
    ...{ input, output, cacheWrite, cached: cost("cache_read_input_token_cost") ?? input },
    cacheWriteLong: cost("cache_creation_input_token_cost_above_1hr") ?? cacheWrite,
  };
}

/** Matches keys with a threshold, such as `input_cost_per_token_above_200k_tokens`. */
function longRateIn(value: unknown) {
  const from = Object.keys(value as object)
    .map((name) => /^input_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1])
    .find((found) => found !== undefined);
  if (from === undefined) return {};
  const rate = rateIn(value, `_above_${from}k_tokens`);
  return rate === null ? {} : { long: { ...rate, aboveTokens: Number(from) * 1_000 } };
}
