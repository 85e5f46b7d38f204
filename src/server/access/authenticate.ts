import type { MiddlewareHandler } from "hono";
import { getCookie } from "hono/cookie";
import type { Caller } from "../../domain/access.ts";
import { problem } from "../problem.ts";
import type { Callers } from "./callers.ts";

// AU1. A browser sends its cookie with every request to this host, whatever page made it, and pages
// of previews are on this host too. So with a cookie we want a sign that a page of ours asks: the
// browser says so (Sec-Fetch-Site), and whatever changes something carries a header of ours, which
// other origins cannot add.

/** Pages that use a session send this header, with any value, with every change. */
const pageHeader = "x-wavesmith";

declare module "hono" {
  interface ContextVariableMap {
    /** Null without a valid key or session. */
    caller: Caller | null;
  }
}

/** Finds out who asks, by a key or a cookie. It refuses only forged requests; routes refuse others. */
export const authenticate =
  (callers: Callers, cookieName: string): MiddlewareHandler =>
  async (context, next) => {
    const { req } = context;
    const authorization = req.header("authorization");
    if (authorization !== undefined) {
      const key = /^Bearer (\S+)$/i.exec(authorization)?.[1];
      context.set("caller", key === undefined ? null : await callers.withKey(key));
      return next();
    }
    const token = getCookie(context, cookieName);
    if (token === undefined) context.set("caller", null);
    else {
      const site = req.header("sec-fetch-site") ?? "same-origin";
      if (site !== "same-origin" && site !== "none")
        return problem(403, "forbidden", "a page of another origin may not use this session");
      if (!["GET", "HEAD"].includes(req.method) && req.header(pageHeader) === undefined)
        return problem(403, "forbidden", `a change made with a session needs the header ${pageHeader}`);
      context.set("caller", await callers.withSession(token));
    }
    return next();
  };
