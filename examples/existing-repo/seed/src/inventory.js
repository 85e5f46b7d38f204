// Everything about the inventory. It began small.
"use strict";

// ---- CSV ----

/** Reads "sku,name,amount,cents" lines; names may be quoted. */
function parseCsv(text) {
  const [, ...lines] = text.trim().split(/\r?\n/);
  return lines.map((line) => {
    const cells = [...line.matchAll(/"((?:[^"]|"")*)"|([^,]+)/g)].map((cell) => cell[2] ?? cell[1].replaceAll('""', '"'));
    if (cells.length !== 4) throw new Error(`Not an item: ${line}`);
    const [sku, name, amount, cents] = cells;
    return { sku, name, amount: Number(amount), cents: Number(cents) };
  });
}

/** The opposite of parseCsv. */
function toCsv(items) {
  const quote = (text) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = items.map(({ sku, name, amount, cents }) => [sku, quote(name), amount, cents].join(","));
  return ["sku,name,amount,cents", ...lines, ""].join("\n");
}

Object.assign(exports, { parseCsv, toCsv });

// ---- Stock ----

function find(items, sku) {
  const item = items.find((one) => one.sku === sku);
  if (!item) throw new Error(`There is no ${sku}.`);
  return item;
}

/** The items with `amount` more of one of them. */
function addStock(items, sku, amount) {
  const item = find(items, sku);
  return items.map((one) => (one === item ? { ...one, amount: one.amount + amount } : one));
}

/** The items with `amount` fewer of one of them; never below nothing. */
function takeStock(items, sku, amount) {
  const item = find(items, sku);
  if (item.amount < amount) throw new Error(`There are only ${item.amount} of ${sku}.`);
  return addStock(items, sku, -amount);
}

/** What there are fewer of than `limit`. */
function lowStock(items, limit = 5) {
  return items.filter((item) => item.amount < limit);
}

Object.assign(exports, { addStock, takeStock, lowStock });

// ---- Prices ----

/** 1250 -> "12.50" */
function formatPrice(cents) {
  return (cents / 100).toFixed(2);
}

/** In cents; from ten on, each costs a tenth less. */
function priceOf(item, amount) {
  const full = item.cents * amount;
  return amount >= 10 ? Math.round(full * 0.9) : full;
}

/** What all items are worth, in cents. */
function totalValue(items) {
  return items.reduce((sum, item) => sum + item.cents * item.amount, 0);
}

Object.assign(exports, { formatPrice, priceOf, totalValue });

// ---- Report ----

/** The report, as lines of text. */
function report(items) {
  const low = lowStock(items).map((item) => `  ${item.name} (${item.amount})`);
  return [
    `${items.length} kinds, worth ${formatPrice(totalValue(items))}`,
    low.length > 0 ? "running low:" : "nothing is running low",
    ...low,
  ];
}

Object.assign(exports, { report });
