import type { HonoRequest, MiddlewareHandler } from "hono";
import type { Caller } from "../../domain/access.ts";
import { problem } from "../problem.ts";
import type { Callers } from "./keys-and-sessions.ts";
import type { SessionCookie } from "./session-cookie.ts";

// AU1. A browser sends its cookie with every request to this host, whatever page made it and to
// whatever port. Pages of previews are on this host too, and their servers, agents' code, receive
// the cookie. So a session also needs the token that our page keeps in its origin's storage, and a
// browser that says the request comes from another origin (Sec-Fetch-Site) is refused.

declare module "hono" {
  interface ContextVariableMap {
    /** Null without a valid key or session. */
    caller: Caller | null;
    /** Looks again who asks; null once the key or session has ended. */
    findCaller: () => Promise<Caller | null>;
  }
}

/**
 * Finds out who asks, by a key or a session. It refuses only forged requests; routes refuse others.
 */
export const authenticate =
  (callers: Callers, cookie: SessionCookie): MiddlewareHandler =>
  async (context, next) => {
    const { req } = context;
    const authorization = req.header("authorization");
    const key = /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1];
    const shown = (name: string) => req.header(name) ?? (name === "x-wavesmith" ? tokenOf(req) : undefined);
    const session = authorization === undefined ? cookie.read(shown) : null;
    const site = req.header("sec-fetch-site") ?? "same-origin";
    if (authorization === undefined && site !== "same-origin" && site !== "none")
      return problem(403, "forbidden", "a page of another origin may not use this session");
    const findCaller = async (): Promise<Caller | null> => {
      if (key !== undefined) return callers.withKey(key);
      return session === null ? null : callers.withSession(session);
    };
    context.set("findCaller", findCaller);
    context.set("caller", await findCaller());
    return next();
  };

/**
 * A page cannot set headers on a WebSocket, only its protocols, so one of them carries the token.
 */
const tokenOf = (req: HonoRequest): string | undefined =>
  /(?:^|,)\s*wavesmith\.token\.([\w-]+)\s*(?:,|$)/.exec(req.header("sec-websocket-protocol") ?? "")?.[1];
