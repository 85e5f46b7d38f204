import { type Context, Hono } from "hono";
import { html } from "hono/html";
import { WavesmithError } from "../domain/errors.ts";
import { type PageContent, pageForPeople, sentence } from "./page.ts";
import type { ServedSignIn } from "./port.ts";

// The two pages that make a GitHub App: a form for GitHub, and the page to which GitHub sends the
// browser back. Whoever knows the state may use them (GI1), so neither is stored or framed.

const headers = {
  "cache-control": "no-store",
  // The form leads to GitHub, and from there perhaps to a company's own sign-in.
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  // The state is in the address, and GitHub may want to know where its form came from.
  "referrer-policy": "origin",
};

/** Settings of the pages besides the connection. */
export interface ConnectPages {
  readonly connection: ServedSignIn;
  /** The page to go back to; absent: the reader goes back to a terminal. */
  readonly backTo?: string;
  readonly onMade?: (name: string) => void;
}

/** The address of the page that begins an App. */
export const connectPath = (state: string): string => `/connect/github?state=${encodeURIComponent(state)}`;

/** Creates the routes of the pages. */
export function createConnectRoutes({ connection, backTo, onMade }: ConnectPages): Hono {
  const routes = new Hono();
  routes.get("/connect/github", (context) =>
    answer(context, async () => form(await connection.appForm(context.req.query("state") ?? ""), connection.webUrl)),
  );
  routes.get("/connect/github/done", (context) =>
    answer(context, async () => {
      const { state = "", code = "" } = context.req.query();
      const made = await connection.finishApp({ state, code });
      onMade?.(made.name);
      return finished(made, backTo);
    }),
  );
  return routes;
}

async function answer(context: Context, make: () => Promise<PageContent>): Promise<Response> {
  try {
    return context.html(pageForPeople(await make()), 200, headers);
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    const status = error.code === "usage" ? 400 : error.code === "conflict" ? 409 : 502;
    return context.html(pageForPeople(failed(error)), status, headers);
  }
}

const form = ({ action, manifest }: { action: string; manifest: string }, webUrl: string): PageContent => ({
  title: "Make a GitHub App",
  body: html`<p>
      ${new URL(webUrl).host} makes an App that only you can install. Where you install it, it may read and write code,
      pull requests, checks and issues, and read the logs of Actions. Its key goes to this machine only.
    </p>
    <form method="post" action="${action}">
      <input type="hidden" name="manifest" value="${manifest}" />
      <button>Go on to GitHub</button>
    </form>`,
});

const finished = ({ name, installUrl }: { name: string; installUrl: string }, backTo?: string): PageContent => ({
  title: `Connected as ${name}`,
  body: html`<p>The App's key is stored. Now choose the repositories that it may use.</p>
    <p><a class="button" href="${installUrl}">Install it on GitHub</a></p>
    <p>${backTo === undefined ? "You can close this page afterwards." : html`<a href="${backTo}">Back to the settings</a>`}</p>`,
});

const failed = ({ message, remedy }: WavesmithError): PageContent => ({
  title: "Not connected",
  body: html`<p>${sentence(message)}</p>
    <p>${remedy === null ? "" : sentence(remedy)}</p>`,
});
