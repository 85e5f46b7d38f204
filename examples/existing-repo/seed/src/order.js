"use strict";
const inventory = require("./inventory.js");

/** What to order so that there are `wanted` of everything, and what that costs. */
function order(items, wanted = 20) {
  return inventory.lowStock(items).map((item) => {
    const amount = wanted - item.amount;
    return `${amount} x ${item.name}: ${inventory.formatPrice(inventory.priceOf(item, amount))}`;
  });
}

module.exports = { order };
