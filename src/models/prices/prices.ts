import type { ModelUsage } from "../../domain/models.ts";

// USD per million tokens, as published by the providers. The price of an unknown model is unknown,
// not zero.

export interface Rate {
  readonly input: number;
  readonly cached: number;
  readonly cacheWrite: number;
  /** The price of a write kept for an hour; default: the same. */
  readonly cacheWriteLong?: number | undefined;
  readonly output: number;
}

export interface Price extends Rate {
  readonly provider: string;
  /**
   * Matches models with this name, alone or followed by `-` or `@` and a date, because dated
   * versions cost the same.
   */
  readonly model: string;
  /** Prices for calls with more input tokens than this, where they are higher. */
  readonly long?: Rate & { readonly aboveTokens: number };
  /** Prices for calls without urgency (batches). */
  readonly batch?: { readonly input: number; readonly output: number } | undefined;
}

/** The first matching entry wins. */
export type PriceTable = readonly Price[];

/** Returns the price of exactly this model; null if the table has none. */
export function priceIn(table: PriceTable, provider: string, model: string): Price | null {
  const fits = (entry: Price): boolean => {
    if (entry.provider !== provider || !model.startsWith(entry.model)) return false;
    const rest = model.slice(entry.model.length);
    return rest === "" || /^[-@](\d{6,8}|\d{4}-\d{2}-\d{2}|latest)/.test(rest);
  };
  return table.find(fits) ?? null;
}

/**
 * Returns the price of the nearest version in the same family, such as that of `claude-opus-5-5`
 * for a later one; null if there is none.
 */
export function familyPriceIn(table: PriceTable, provider: string, model: string): Price | null {
  const family = familyOf(model);
  const members = table
    .filter((entry) => entry.provider === provider && familyOf(entry.model) === family)
    .sort((one, other) => compareVersions(versionOf(one.model), versionOf(other.model)));
  const version = versionOf(model);
  return members.filter((entry) => compareVersions(versionOf(entry.model), version) <= 0).at(-1) ?? members[0] ?? null;
}

const released = new Set(["preview", "latest", "exp", "experimental"]);

/** Removes the version from a name: `gpt-5.4-mini` and `gpt-6-mini` are both `gpt-mini`. */
const familyOf = (model: string): string =>
  model
    .toLowerCase()
    .split(/[-@]/)
    .map((part) => part.replace(/^o\d+$/, "o"))
    .filter((part) => !/^v?\d+(\.\d+)*$/.test(part) && !released.has(part))
    .join("-");

const versionOf = (model: string): number[] =>
  (model.match(/\d+/g) ?? []).filter((digits) => digits.length < 4).map(Number);

function compareVersions(one: readonly number[], other: readonly number[]): number {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Returns the price of a million tokens in a call with this many input tokens. */
export const rateOf = ({ long, ...usual }: Price, inputTokens: number): Rate =>
  long !== undefined && inputTokens > long.aboveTokens ? long : usual;

/** Returns the cost in millionths of a USD, rounded up. */
export function costMicroUsd(price: Price, usage: ModelUsage): number {
  const rate = rateOf(price, usage.inputTokens);
  const longWrites = usage.cacheWriteLongTokens ?? 0;
  const plain = Math.max(0, usage.inputTokens - usage.cachedTokens - usage.cacheWriteTokens);
  const input =
    plain * rate.input +
    usage.cachedTokens * rate.cached +
    (usage.cacheWriteTokens - longWrites) * rate.cacheWrite +
    longWrites * (rate.cacheWriteLong ?? rate.cacheWrite);
  const output = usage.outputTokens * rate.output;
  const { batch } = price;
  if (usage.isBatch !== true || batch === undefined) return Math.ceil(input + output - 1e-9);
  // Every part of such a call has the same discount.
  const part = (less: number, whole: number): number => (whole === 0 ? 1 : less / whole);
  return Math.ceil(input * part(batch.input, price.input) + output * part(batch.output, price.output) - 1e-9);
}
