import { html } from "hono/html";

// The pages that are shown when the dashboard cannot be: before a sign-in, and for one without a
// server.

export interface PageContent {
  readonly title: string;
  readonly body: ReturnType<typeof html>;
}

const style = `body { font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1rem; }
button, .button { font: inherit; padding: .5rem 1rem; border: 0; border-radius: .4rem; background: #1f6feb;
color: #fff; text-decoration: none; cursor: pointer; }
:root { color-scheme: light dark; }`;

/** Writes a message of ours, which begins in lower case, as a sentence of a page. */
export const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Renders a page for people; nothing in it comes from elsewhere. */
export const pageForPeople = ({ title, body }: PageContent) =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${title} · Wavesmith</title>
        <style>${style}</style>
      </head>
      <body>
        <main>
          <h1>${title}</h1>
          ${body}
        </main>
      </body>
    </html>`;
