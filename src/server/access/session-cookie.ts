import { parse } from "hono/utils/cookie";
import type { SessionProof, Token } from "./keys-and-sessions.ts";

type CookieHeaders = Readonly<Record<string, string>>;

/** The cookie with half of what proves a browser's session (CA3). */
export interface SessionCookie {
  set(session: Token): CookieHeaders;
  clear(): CookieHeaders;
  /** Returns the tokens of a request; null unless it has both. */
  read(header: (name: string) => string | undefined): SessionProof | null;
}

/**
 * Creates the cookie of one installation. Its name has the installation's id, because browsers send
 * a cookie to every port of a host. `isSecure`: whether browsers reach us by HTTPS only.
 */
export function createSessionCookie(installation: string, isSecure: boolean): SessionCookie {
  const name = `wavesmith_${installation}`;
  const header = (value: string, maxAgeS: number): CookieHeaders => {
    const parts = [`${name}=${value}`, "Path=/api/v1", `Max-Age=${maxAgeS}`, "HttpOnly", "SameSite=Strict"];
    return { "set-cookie": [...parts, ...(isSecure ? ["Secure"] : [])].join("; "), "cache-control": "no-store" };
  };
  return {
    set: ({ token, validMs }) => header(token, validMs / 1000),
    clear: () => header("", 0),
    read(read) {
      const token = parse(read("cookie") ?? "", name)[name];
      const pageToken = read("x-wavesmith");
      return token === undefined || pageToken === undefined ? null : { token, pageToken };
    },
  };
}
