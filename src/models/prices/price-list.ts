import { z } from "zod";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import published from "./prices.json" with { type: "json" };
import type { Price, PriceTable } from "./prices.ts";

// Price lists: the built-in one, a newer one that a person fetched, and a person's own.

const usd = z.number().nonnegative();
const rateSchema = z.object({
  input: usd,
  cached: usd.optional(),
  cacheWrite: usd.optional(),
  cacheWriteLong: usd.optional(),
  output: usd,
});
const entrySchema = rateSchema.extend({
  provider: z.string().min(1),
  model: z.string().min(1),
  long: rateSchema.extend({ aboveTokens: z.number().int().positive() }).optional(),
  batch: z.object({ input: usd, output: usd }).optional(),
});
const listSchema = z.object({
  date: z.string().regex(/^\d{4}-\d{2}-\d{2}$/),
  source: z.string(),
  prices: z.array(entrySchema).min(1),
});

/** A list with its date. */
export interface PriceList {
  readonly date: string;
  readonly source: string;
  readonly prices: PriceTable;
}

type RateOfFile = z.output<typeof rateSchema>;

/** If a list omits its cache prices, they equal the price of input. */
const rate = <Entry extends RateOfFile>(entry: Entry) => {
  const cacheWrite = entry.cacheWrite ?? entry.input;
  return {
    ...entry,
    cached: entry.cached ?? entry.input,
    cacheWrite,
    cacheWriteLong: entry.cacheWriteLong ?? cacheWrite,
  };
};

const priceOfEntry = ({ long, ...entry }: z.output<typeof entrySchema>): Price => ({
  ...rate(entry),
  ...(long !== undefined && { long: rate(long) }),
});

const listOf = ({ date, source, prices }: z.output<typeof listSchema>): PriceList => ({
  ...{ date, source },
  prices: prices.map(priceOfEntry),
});

/** The built-in list. */
export const shippedPrices: PriceList = listOf(listSchema.parse(published));

/** Parses a fetched list. Fails with `usage`. */
export function readPriceList(text: string, file: string): PriceList {
  try {
    return listOf(listSchema.parse(JSON.parse(text)));
  } catch (cause) {
    throw new WavesmithError("usage", `the prices in ${file} cannot be read: ${messageOf(cause)}`, {
      remedy: "fetch them again: wavesmith prices update",
      cause,
    });
  }
}

/** Parses a person's own table: entries alone, or a whole list. Fails with `usage`. */
export function readPrices(text: string, file: string): PriceTable {
  try {
    const value: unknown = JSON.parse(text);
    return z
      .array(entrySchema)
      .parse(Array.isArray(value) ? value : listSchema.parse(value).prices)
      .map(priceOfEntry);
  } catch (cause) {
    throw new WavesmithError("usage", `the prices in ${file} cannot be read: ${messageOf(cause)}`, {
      remedy: 'write [{ "provider": "openai", "model": "gpt-x", "input": 1, "output": 8 }], in USD per million tokens',
      cause,
    });
  }
}

/** Formats a list for its file. */
export const priceListText = (list: PriceList): string => `${JSON.stringify(list, null, 1)}\n`;
