import type { ModelUsage } from "../domain/models.ts";

// USD per million tokens, as the providers published them. A model that nobody knows has no known
// price, which is not zero.

export interface Rate {
  readonly input: number;
  readonly cached: number;
  readonly cacheWrite: number;
  /** Kept for an hour; absent: the same. */
  readonly cacheWriteLong?: number | undefined;
  readonly output: number;
}

export interface Price extends Rate {
  readonly provider: string;
  /**
   * A model has this name, or begins with it and goes on with `-` or `@` and a date: dated versions
   * cost the same.
   */
  readonly model: string;
  /** What a call costs whose input is above so many tokens, where that is more. */
  readonly long?: Rate & { readonly aboveTokens: number };
  /** What a call costs that may take its time. */
  readonly batch?: { readonly input: number; readonly output: number } | undefined;
}

/** The first entry that fits counts. */
export type PriceTable = readonly Price[];

/** The price of just this model; null when the table has none. */
export function priceIn(table: PriceTable, provider: string, model: string): Price | null {
  const fits = (entry: Price): boolean => {
    if (entry.provider !== provider || !model.startsWith(entry.model)) return false;
    const rest = model.slice(entry.model.length);
    return rest === "" || /^[-@](\d{6,8}|\d{4}-\d{2}-\d{2}|latest)/.test(rest);
  };
  return table.find(fits) ?? null;
}

/**
 * The price of the nearest version of the same family, such as of `claude-opus-5-5` for a later
 * one; null without one.
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

/** A name without its version: `gpt-5.4-mini` and `gpt-6-mini` are both `gpt-mini`. */
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

/** What a million tokens of a call with so many tokens of input cost. */
export const rateOf = ({ long, ...usual }: Price, inputTokens: number): Rate =>
  long !== undefined && inputTokens > long.aboveTokens ? long : usual;

/** Millionths of a USD, rounded up. */
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
  // Everything of it is cheaper by the same part.
  const part = (less: number, whole: number): number => (whole === 0 ? 1 : less / whole);
  return Math.ceil(input * part(batch.input, price.input) + output * part(batch.output, price.output) - 1e-9);
}
