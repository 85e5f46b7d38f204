// Puts a few friendly entries into an empty guestbook. Any other is left alone.
import { readConfig } from "../src/config.js";
import { openLog } from "../src/db/log.js";
import { createStore } from "../src/db/store.js";

const minute = 60_000;
const samples = [
  ["Nour", "Alexandria", "emerald", 9 * 24 * 60, 3, "We came for one night and stayed for four. The sea did the rest."],
  ["Tomás Rivera", "Valparaíso", "amber", 5 * 24 * 60, 7, "Best coffee on the coast, and I have tried them all.\n\nSee you in spring!"],
  ["Mei-Lin", "Taipei", "violet", 2 * 24 * 60, 2, "The room with the blue door. Ask for it. You can hear the boats come in before you see them."],
  ["Grace H.", "New York", "sky", 26 * 60, 12, "Found a moth behind the radio, and it played perfectly again afterwards.\nLeft the moth in the book."],
  ["The Okafors", "Lagos", "rose", 5 * 60, 5, "Three children, two grandmothers, one very patient host. Thank you for the pancakes!"],
  ["Ada", "", "amber", 12, 1, "I have a feeling this place will be much more than a place to stay. <3"],
];

let clock = Date.now();
const log = await openLog(readConfig(process.env).dataFile);
const store = await createStore(log, { now: () => new Date(clock) });
if (store.list().total === 0) {
  for (const [author, place, colour, minutesAgo, hearts, message] of samples) {
    clock = Date.now() - minutesAgo * minute;
    const { entry } = await store.add({ author, place, colour, message });
    for (let given = 0; given < hearts; given += 1) await store.heart(entry.id);
  }
  console.log(`Put ${samples.length} entries into the book.`);
} else {
  console.log("The book has entries already; nothing was added.");
}
await store.close();
