const assert = require("node:assert/strict");
const { test } = require("node:test");
const { labels } = require("../src/labels.js");
const { order } = require("../src/order.js");

const items = [
  { sku: "a", name: "Tea", amount: 4, cents: 650 },
  { sku: "b", name: "Pot", amount: 0, cents: 3900 },
  { sku: "c", name: "Cup", amount: 30, cents: 1250 },
];

test("what runs low is ordered", () => {
  assert.deepEqual(order(items), ["16 x Tea: 93.60", "20 x Pot: 702.00"]);
});
test("what is there has a label", () => {
  assert.deepEqual(labels(items), ["Tea ... 6.50", "Cup ... 12.50"]);
});
