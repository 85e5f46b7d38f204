module.exports = require("./src/inventory.js");
