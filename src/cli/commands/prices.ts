import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { fetchPrices, keepPrices, newestPrices } from "../parts/prices.ts";

const pricesAreFiles = "prices are a file in the data directory";

/** `prices`: shows which price list is in use. */
export async function prices(context: Context): Promise<number> {
  await refuseServer(context, pricesAreFiles);
  const { dataDir, models } = await context.config();
  const list = await newestPrices(dataDir);
  const { date, source } = list;
  if (context.json)
    context.out.json({ type: "prices", date, source, models: list.prices.length, own: models.pricesFile });
  else {
    context.out.line(`${list.prices.length} models, as of ${date}, from ${source}`);
    if (models.pricesFile !== null) context.out.line(`  your own prices come first: ${models.pricesFile}`);
    context.out.line(`  to update: ${context.hints.command("prices update")}`);
  }
  return exit.ok;
}

/** `prices update`: fetches the public price list for processes that start from now on. */
export async function updatePrices(context: Context): Promise<number> {
  await refuseServer(context, pricesAreFiles);
  const { dataDir, models } = await context.config();
  const list = await fetchPrices(models.pricesUrl, new Date());
  const file = await keepPrices(dataDir, list);
  const { date, source } = list;
  if (context.json) context.out.json({ type: "prices", date, source, models: list.prices.length, file });
  else
    context.out.line(`${list.prices.length} models, as of ${date}, in ${file}; restart a running server to use them`);
  return exit.ok;
}
