const assert = require("node:assert/strict");
const { test } = require("node:test");
const { report } = require("../index.js");

test("the report says what runs low", () => {
  const lines = report([{ sku: "a", name: "Tea", amount: 4, cents: 650 }]);
  assert.deepEqual(lines, ["1 kinds, worth 26.00", "running low:", "  Tea (4)"]);
});
test("the report says when nothing does", () => {
  assert.deepEqual(report([]), ["0 kinds, worth 0.00", "nothing is running low"]);
});
