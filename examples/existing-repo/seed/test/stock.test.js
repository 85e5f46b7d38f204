const assert = require("node:assert/strict");
const { test } = require("node:test");
const { addStock, lowStock, takeStock } = require("../index.js");

const items = [
  { sku: "a", name: "Tea", amount: 4, cents: 650 },
  { sku: "b", name: "Pot", amount: 9, cents: 3900 },
];
const amounts = (list) => list.map((item) => item.amount);

test("stock is added and taken without touching the items before", () => {
  assert.deepEqual(amounts(addStock(items, "a", 6)), [10, 9]);
  assert.deepEqual(amounts(takeStock(items, "b", 9)), [4, 0]);
  assert.deepEqual(amounts(items), [4, 9]);
});
test("more than there is cannot be taken", () => {
  assert.throws(() => takeStock(items, "a", 5), /only 4 of a/);
});
test("low is below the limit", () => {
  assert.deepEqual(lowStock(items).map((item) => item.sku), ["a"]);
  assert.deepEqual(lowStock(items, 4), []);
});
