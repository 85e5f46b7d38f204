// An entry point like parts.ts: gives `prices` the lists of model prices.
export { fetchPrices } from "../../models/prices/fetch-prices.ts";
export { keepPrices, newestPrices } from "../../models/prices/kept-prices.ts";
