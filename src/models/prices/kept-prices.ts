import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type PriceList, priceListText, readPriceList, shippedPrices } from "./price-list.ts";

const fileOf = (dataDir: string): string => join(dataDir, "model-prices.json");

/**
 * Reads the last fetched list, unless the built-in list is newer. Fails with `usage` when the file
 * is not a list.
 */
export async function newestPrices(dataDir: string): Promise<PriceList> {
  const file = fileOf(dataDir);
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return shippedPrices;
  const keptList = readPriceList(text, file);
  return keptList.date >= shippedPrices.date ? keptList : shippedPrices;
}

/** Stores a list for the next start and returns its path. */
export async function keepPrices(dataDir: string, list: PriceList): Promise<string> {
  const file = fileOf(dataDir);
  await mkdir(dataDir, { recursive: true });
  await writeFile(`${file}.tmp`, priceListText(list));
  await rename(`${file}.tmp`, file);
  return file;
}
