const assert = require("node:assert/strict");
const { test } = require("node:test");
const { parseCsv, toCsv } = require("../index.js");

const text = 'sku,name,amount,cents\na,"Tea, green",2,650\nb,"The ""big"" pot",1,3900\n';

test("names may hold commas and quotes", () => {
  assert.deepEqual(parseCsv(text).map((item) => item.name), ["Tea, green", 'The "big" pot']);
});
test("what was read is written the same", () => {
  assert.equal(toCsv(parseCsv(text)), text);
});
test("a line that is no item is named", () => {
  assert.throws(() => parseCsv("sku,name,amount,cents\nonly,two"), /only,two/);
});
