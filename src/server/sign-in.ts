import { type Context, Hono } from "hono";
import { html } from "hono/html";
import { parse } from "hono/utils/cookie";
import { WavesmithError } from "../domain/errors.ts";
import type { Callers, OpenedSession } from "./access/keys-and-sessions.ts";
import type { OpenIdSignIn } from "./access/open-id.ts";
import type { SessionCookie } from "./access/session-cookie.ts";
import { pageForPeople, sentence } from "./page.ts";
import { problem } from "./problem.ts";

// The addresses that a browser signs in by: a link of `wavesmith open`, and the way to an OpenID
// provider and back.

/** Where a browser begins; its query may have `to`, the page to open once it is signed in. */
export const openIdPath = "/sign-in/oidc";

const callbackPath = `${openIdPath}/callback`;
/** How long a person may take at the provider. */
const patienceS = 10 * 60;
const pageHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
};

/** What signing in needs. */
export interface SignInParts {
  readonly callers: Callers;
  readonly cookie: SessionCookie;
  /** Null where people need keys. */
  readonly openId: OpenIdSignIn | null;
  /** Tells installations on one host apart, which share its cookies. */
  readonly installation: string;
  /** Where others reach us; null for the address that a request names. */
  readonly serveOrigin: string | null;
}

/** Creates the routes. */
export function createSignInRoutes(parts: SignInParts): Hono {
  const { callers, cookie, openId } = parts;
  const routes = new Hono();
  routes.get("/sign-in", async ({ req }) => {
    const session = await callers.useLink(req.query("token") ?? "");
    if (session !== null) return enter(cookie, session, req.query("to"));
    return problem(401, "unauthorized", "this link has been used or has expired", "wavesmith open makes another");
  });
  if (openId === null) return routes;
  routes.get(openIdPath, (context) => answer(context, () => leave(context, openId, parts)));
  routes.get(callbackPath, (context) =>
    answer(context, async () => {
      const pending = readPending(context, parts);
      const url = new URL(context.req.url);
      const person = await openId.finish(new URL(`${callbackUrl(context, parts)}${url.search}`), pending.secret);
      const response = enter(cookie, await callers.signInPerson(person), pending.to);
      response.headers.append("set-cookie", pendingCookie("", 0, parts));
      return response;
    }),
  );
  return routes;
}

/** Sends the browser to the provider; a cookie keeps what its answer must match (OI1). */
async function leave(context: Context, openId: OpenIdSignIn, parts: SignInParts): Promise<Response> {
  const { url, secret } = await openId.begin(callbackUrl(context, parts));
  const to = Buffer.from(context.req.query("to") ?? "/").toString("base64url");
  const cookie = pendingCookie(`${secret}.${to}`, patienceS, parts);
  return new Response(null, {
    status: 303,
    headers: {
      location: url.href,
      "set-cookie": cookie,
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    },
  });
}

function readPending(context: Context, parts: SignInParts): { secret: string; to: string } {
  const name = pendingName(parts);
  const [secret, to = ""] = (parse(context.req.header("cookie") ?? "", name)[name] ?? "").split(".");
  if (secret === undefined || secret === "")
    throw new WavesmithError("usage", "this browser has not begun to sign in here, or took more than ten minutes", {
      remedy: "begin again",
    });
  return { secret, to: Buffer.from(to, "base64url").toString() };
}

const pendingName = ({ installation }: SignInParts): string => `wavesmith_oidc_${installation}`;

/** `Lax`, because the browser comes back from a page of another site. */
function pendingCookie(value: string, maxAgeS: number, parts: SignInParts): string {
  const secure = parts.serveOrigin?.startsWith("https:") === true ? ["Secure"] : [];
  const scope = [`Path=${openIdPath}`, `Max-Age=${maxAgeS}`, "HttpOnly", "SameSite=Lax", ...secure];
  return [`${pendingName(parts)}=${value}`, ...scope].join("; ");
}

/** The address to which the provider sends the browser back; it must be registered there. */
const callbackUrl = ({ req }: Context, { serveOrigin }: SignInParts): string =>
  `${serveOrigin ?? `http://${req.header("host") ?? ""}`}${callbackPath}`;

/** Opens the page that the person wanted. */
function enter(cookie: SessionCookie, session: OpenedSession, to = "/"): Response {
  // One of our paths; `//host` and `/\\host` would lead elsewhere.
  const location = /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : "/";
  // Browsers never send the part after `#` to a server; the page reads it there.
  const headers = { ...cookie.set(session), location: `${location.replace(/#.*/, "")}#token=${session.pageToken}` };
  return new Response(null, { status: 303, headers: { ...headers, "referrer-policy": "no-referrer" } });
}

async function answer(context: Context, respond: () => Promise<Response>): Promise<Response> {
  try {
    return await respond();
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    const content = {
      title: "Not signed in",
      body: html`<p>${sentence(error.message)}</p>
        <p>${error.remedy === null ? "" : sentence(error.remedy)}</p>
        <p><a class="button" href="/">Back to signing in</a></p>`,
    };
    return context.html(pageForPeople(content), error.code === "usage" ? 403 : 502, pageHeaders);
  }
}
