import assert from "node:assert/strict";
import { test } from "node:test";
import { homePage } from "../src/pages/home.js";

const ada = {
  id: "e1",
  author: "Ada Lovelace",
  place: "London",
  message: "Hello",
  colour: "amber",
  hearts: 3,
  createdAt: "2026-01-02T03:04:05.000Z",
};
const bookOf = (...entries) => ({ entries, page: 1, pages: 1, total: entries.length });

test("an empty book invites to write", () => {
  assert.match(homePage({ book: bookOf() }), /No entries yet/);
});

test("an entry shows who, where, when, what and its hearts", () => {
  const page = homePage({ book: bookOf(ada) });
  for (const part of ["Ada Lovelace", "London", "2 January 2026", "Hello", ">AL<", "data-hearts>3<"]) {
    assert.ok(page.includes(part), `${part} is missing`);
  }
});

test("line breaks in a message are kept", () => {
  assert.match(homePage({ book: bookOf({ ...ada, message: "one\ntwo" }) }), /one<br>two/);
});

const attack = '<img src=x onerror="alert(1)">';
for (const field of ["author", "place", "message"]) {
  test(`markup in the ${field} of an entry is shown as text`, () => {
    const page = homePage({ book: bookOf({ ...ada, [field]: `Hi\n${attack}` }) });
    assert.ok(!page.includes("<img src=x"), `the ${field} reaches the page as markup: a visitor could run scripts there`);
    assert.ok(page.includes("&lt;img src=x"));
  });
}

test("there are links to newer and older pages, where there are any", () => {
  const middle = homePage({ book: { entries: [ada], page: 2, pages: 3, total: 21 } });
  assert.match(middle, /href="\/\?page=1"/);
  assert.match(middle, /href="\/\?page=3"/);
  assert.doesNotMatch(homePage({ book: bookOf(ada) }), /rel="(prev|next)"/);
});

test("problems stand beside their fields, and what was typed is kept", () => {
  const page = homePage({
    book: bookOf(),
    values: { author: 'Bob "Bobby"', message: "</textarea><b>" },
    problems: { message: "Please write a few words." },
  });
  assert.match(page, /id="message-problem"[^>]*>Please write a few words\./);
  assert.match(page, /aria-describedby="message-problem"/);
  assert.match(page, /value="Bob &quot;Bobby&quot;"/);
  assert.match(page, /&lt;\/textarea&gt;&lt;b&gt;<\/textarea>/);
});
