const assert = require("node:assert/strict");
const { test } = require("node:test");
const { formatPrice, priceOf, totalValue } = require("../index.js");

test("prices have two decimals", () => {
  assert.equal(formatPrice(1250), "12.50");
  assert.equal(formatPrice(5), "0.05");
});
test("ten and more are a tenth cheaper", () => {
  assert.equal(priceOf({ cents: 100 }, 9), 900);
  assert.equal(priceOf({ cents: 100 }, 10), 900);
});
test("everything together has a value", () => {
  assert.equal(totalValue([{ amount: 2, cents: 650 }, { amount: 1, cents: 3900 }]), 5200);
});
