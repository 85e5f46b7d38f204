// The one page of the guestbook. It works without JavaScript; public/app.js adds comfort by the data-* attributes.
import { colours, limits } from "../entries/rules.js";
import { html, raw } from "./html.js";

/** The whole page. `values` and `problems` are of a form that was sent with faults. */
export function homePage({ book, values = {}, problems = {} }) {
  return String(html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Guestbook</title>
  <meta name="description" content="A few words from people who came by.">
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <script type="module" src="/app.js"></script>
</head>
<body>
  <header class="hero">
    <img src="/icon.svg" alt="" width="56" height="56">
    <div>
      <h1>Guestbook</h1>
      <p>A few words from people who came by. Leave yours.</p>
    </div>
  </header>
  <main class="layout">
    ${form(values, problems)}
    <section class="book" id="book" data-book aria-label="Entries">
      ${heading(book)}
      ${book.entries.length > 0 ? html`<ol class="cards">${book.entries.map(card)}</ol>` : empty()}
      ${pager(book)}
    </section>
  </main>
  <footer class="foot">Kept in a file database of our own, one line for each change. <a href="/api/entries">API</a></footer>
</body>
</html>
`);
}

function form(values, problems) {
  return html`<form class="sheet" method="post" action="/" data-form novalidate>
      <h2>Sign the book</h2>
      ${field("author", "Your name", problems, html`<input id="author" name="author" maxlength="${limits.author}" required
        autocomplete="name" value="${values.author}" ${describedBy("author", problems)}>`)}
      ${field("place", "Where you are from", problems, html`<input id="place" name="place" maxlength="${limits.place}"
        placeholder="optional" value="${values.place}" ${describedBy("place", problems)}>`)}
      ${field("message", "Your message", problems, html`<textarea id="message" name="message" rows="5" required
        maxlength="${limits.message}" data-counted ${describedBy("message", problems)}>${values.message}</textarea>`)}
      <fieldset class="colours">
        <legend>Colour</legend>
        ${colours.map((colour) => swatch(colour, values.colour ?? colours[0]))}
      </fieldset>
      <button class="primary">Leave it here</button>
    </form>`;
}

function field(name, label, problems, control) {
  return html`<div class="field">
        <label for="${name}">${label}</label>
        ${control}
        <p class="problem" id="${name}-problem" data-problem="${name}">${problems[name]}</p>
      </div>`;
}

const describedBy = (name, problems) =>
  problems[name] && raw(`aria-invalid="true" aria-describedby="${name}-problem"`);

function swatch(colour, chosen) {
  return html`<label class="swatch ${colour}" title="${colour}">
          <input type="radio" name="colour" value="${colour}" ${colour === chosen && raw("checked")}>
          <span class="visually-hidden">${colour}</span>
        </label>`;
}

function heading({ total, page, pages }) {
  const count = total === 1 ? "1 entry" : `${total} entries`;
  return html`<div class="book-head"><h2>${count}</h2>${pages > 1 && html`<span>page ${page} of ${pages}</span>`}</div>`;
}

function card(entry) {
  return html`<li class="card ${entry.colour}" id="entry-${entry.id}" data-entry="${entry.id}">
        <div class="card-head">
          <span class="avatar" aria-hidden="true">${initials(entry.author)}</span>
          <div>
            <strong class="author">${entry.author}</strong>
            <span class="where">${entry.place && html`${entry.place} · `}<time datetime="${entry.createdAt}" data-time>${day(entry.createdAt)}</time></span>
          </div>
        </div>
        <p class="message">${paragraph(entry.message)}</p>
        <div class="card-foot">
          <button class="heart" type="button" data-heart aria-label="Send a heart"><span aria-hidden="true">♥</span> <span data-hearts>${entry.hearts}</span></button>
          <button class="remove" type="button" data-remove hidden>Take back</button>
        </div>
      </li>`;
}

/** A message with its line breaks. */
const paragraph = (message) => raw(message.replaceAll("\n", "<br>"));

const initials = (author) =>
  author
    .split(/\s+/)
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase())
    .join("");

const day = (iso) => new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

function empty() {
  return html`<div class="empty">
        <p class="empty-title">No entries yet</p>
        <p>The first page is still white. It could be yours.</p>
      </div>`;
}

function pager({ page, pages }) {
  if (pages === 1) return null;
  return html`<nav class="pager" aria-label="Pages">
        ${page > 1 ? html`<a rel="prev" href="/?page=${page - 1}">← Newer</a>` : html`<span></span>`}
        ${page < pages && html`<a rel="next" href="/?page=${page + 1}">Older →</a>`}
      </nav>`;
}
