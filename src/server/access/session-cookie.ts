import { parse } from "hono/utils/cookie";
import type { Token } from "./callers.ts";

type CookieHeaders = Readonly<Record<string, string>>;

/** The cookie that holds a browser's session. */
export interface SessionCookie {
  readonly name: string;
  set(session: Token): CookieHeaders;
  clear(): CookieHeaders;
  /** Returns the token in a Cookie header; null if there is none. */
  read(header: string | undefined): string | null;
}

/**
 * Creates the cookie of one installation. Its name has the installation's id, because browsers send
 * a cookie to every port of a host. `isSecure`: whether browsers reach us by HTTPS only.
 */
export function createSessionCookie(installation: string, isSecure: boolean): SessionCookie {
  const name = `wavesmith_${installation}`;
  const header = (value: string, maxAgeS: number): CookieHeaders => {
    const parts = [`${name}=${value}`, "Path=/", `Max-Age=${maxAgeS}`, "HttpOnly", "SameSite=Strict"];
    return { "set-cookie": [...parts, ...(isSecure ? ["Secure"] : [])].join("; "), "cache-control": "no-store" };
  };
  return {
    name,
    set: ({ token, validMs }) => header(token, validMs / 1000),
    clear: () => header("", 0),
    read: (text) => (text === undefined ? null : (parse(text, name)[name] ?? null)),
  };
}
