// Templates that are safe by default: every value is escaped, unless it is html itself.

class Html {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Text as it may stand in html, between tags and inside quoted attributes. */
export const escape = (text) => String(text).replace(/[&<>"']/g, (character) => entities[character]);

/** Marks text as html that is known to be safe. What a visitor wrote never is. */
export const raw = (text) => new Html(String(text));

/** html`<p>${value}</p>`: lists are joined; null, undefined and false are left out. */
export function html(strings, ...values) {
  return new Html(strings.reduce((text, part, index) => text + render(values[index - 1]) + part));
}

function render(value) {
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(render).join("");
  if (value === null || value === undefined || value === false) return "";
  return escape(value);
}
