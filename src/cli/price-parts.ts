// Like parts.ts an entry point: where `prices` reaches the lists of what models cost.
export { fetchPrices } from "../models/fetch-prices.ts";
export { keepPrices, newestPrices } from "../models/kept-prices.ts";
