import { readFile } from "node:fs/promises";
import { parseModel, providerNames } from "../domain/models.ts";
import type { ModelProvider, Models } from "./port.ts";
import { newestPrices } from "./prices/kept-prices.ts";
import { type PriceList, readPrices, shippedPrices } from "./prices/price-list.ts";
import { familyPriceIn, type Price, type PriceTable, priceIn } from "./prices/prices.ts";

// Which models can be used on this machine, and what they cost.

export interface OfferOptions {
  readonly providers: readonly ModelProvider[];
  /** Prices set by a person. */
  readonly prices: PriceTable;
  /** Published prices; default: the list that came with this version. */
  readonly published?: PriceList;
  readonly warn: (message: string) => void;
}

export interface Offer extends Pick<Models, "lacks" | "isPriced"> {
  priceOf(provider: string, model: string): Price | null;
}

/** `shownWarnings` names the models whose unknown price has been warned of. */
export function createOffer(options: OfferOptions, shownWarnings = new Set<string>()): Offer {
  const { providers } = options;
  const priceOf = createPricing(options, shownWarnings);
  return {
    priceOf,
    lacks(model) {
      const { provider } = parseModel(model ?? "");
      if (provider !== null && providers.some(({ name }) => name === provider)) return null;
      if (provider === null && providers.length > 0) return null;
      return provider === null ? "there is no key for any provider" : `there is no key for ${provider}`;
    },
    isPriced(model) {
      const { provider, model: name } = parseModel(model);
      return provider !== null && priceOf(provider, name) !== null;
    },
  };
}

/** Settings that decide what is offered. */
interface OfferSettings {
  readonly dataDir: string;
  readonly models: {
    readonly providers: readonly ModelProvider[];
    readonly pricesFile: string | null;
    readonly cassette: { readonly mode: "record" | "replay" } | null;
  };
}

/** Reads the providers and prices that the settings name. */
export async function readOffer({ dataDir, models }: OfferSettings): Promise<Omit<OfferOptions, "warn">> {
  const { cassette, pricesFile, providers } = models;
  // A replay calls no provider, so it needs no key.
  const names = new Set([...providerNames, ...providers.map(({ name }) => name)]);
  const unasked = [...names].map((name) => ({ name, baseUrl: "", headers: {} }));
  return {
    providers: cassette?.mode === "replay" ? unasked : providers,
    prices: pricesFile === null ? [] : readPrices(await readFile(pricesFile, "utf8"), pricesFile),
    published: await newestPrices(dataDir),
  };
}

/**
 * Finds the price of a model: a person's price, otherwise the published one. A model newer than the
 * list is priced like the nearest one of its family, with one warning. The price of a subscription
 * is unknown.
 */
function createPricing(
  { prices, published = shippedPrices, providers, warn }: OfferOptions,
  shownWarnings: Set<string>,
) {
  return (provider: string, model: string): Price | null => {
    const own = priceIn(prices, provider, model);
    if (own !== null) return own;
    if (providers.find(({ name }) => name === provider)?.isSubscription === true) return null;
    const exact = priceIn(published.prices, provider, model);
    if (exact !== null) return exact;
    const alike = familyPriceIn([...prices, ...published.prices], provider, model);
    const name = `${provider}:${model}`;
    if (alike !== null && !shownWarnings.has(name)) {
      warn(
        `the price of ${name} is unknown, so it is counted like ${alike.model} (prices of ${published.date}): \`wavesmith prices update\` fetches newer prices, WAVESMITH_PRICES sets your own`,
      );
    }
    shownWarnings.add(name);
    return alike;
  };
}
