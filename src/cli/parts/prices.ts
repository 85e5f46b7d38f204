// An entry point like parts.ts: gives `prices` the lists of model prices.
export { fetchPrices } from "../../models/fetch-prices.ts";
export { keepPrices, newestPrices } from "../../models/kept-prices.ts";
