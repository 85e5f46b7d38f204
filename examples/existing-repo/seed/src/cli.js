#!/usr/bin/env node
"use strict";
const { readFileSync } = require("node:fs");
const inventory = require("./inventory.js");
const { labels } = require("./labels.js");
const { order } = require("./order.js");

const [command, file] = process.argv.slice(2);
const commands = { report: inventory.report, order, labels };

if (!Object.hasOwn(commands, command ?? "") || !file) {
  console.error("usage: inventory report|order|labels FILE");
  process.exit(2);
}
for (const line of commands[command](inventory.parseCsv(readFileSync(file, "utf8")))) console.log(line);
