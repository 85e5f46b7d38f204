"use strict";
const inventory = require("./inventory.js");

/** A price label for each kind that is there. */
function labels(items) {
  return items.filter((item) => item.amount > 0).map((item) => `${item.name} ... ${inventory.formatPrice(item.cents)}`);
}

module.exports = { labels };
