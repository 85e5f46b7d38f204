import { createHash, timingSafeEqual } from "node:crypto";
import { isIPv4 } from "node:net";
import type { MiddlewareHandler } from "hono";
import type { Callers } from "./access/keys-and-sessions.ts";
import { runsServer } from "./access/operators.ts";
import { problem } from "./problem.ts";

// SG1. A web page in the user's browser can send requests to loopback, either through a host name
// that resolves to 127.0.0.1 (visible in Host) or across origins (visible in Origin). We refuse
// both, even with a valid key. Previews are such pages: agents' code, served from another port of
// this machine.

/** Whether a server that listens on `host` is reachable only from this machine. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  return name === "localhost" || name === "::1" || (isIPv4(name) && name.startsWith("127."));
}

/** The names by which containers reach this machine; a stranger cannot register them. */
const containerNames = ["host.docker.internal", "host.containers.internal"];

/**
 * Refuses requests whose Host is not one of our names, and requests from pages of other origins.
 */
export function onlyOwnNames({ host, serveOrigin }: { host: string; serveOrigin: string | null }): MiddlewareHandler {
  const names = new Set([...containerNames, ...(serveOrigin === null ? [] : [new URL(serveOrigin).hostname])]);
  // Other machines reach it by names that we cannot know; there the key protects it.
  const isOwn = (name: string): boolean => !isLoopback(host) || isLoopback(name) || names.has(name);
  return async (context, next) => {
    const ownUrl = urlOf(`http://${context.req.header("host") ?? ""}`);
    if (ownUrl === null || !isOwn(ownUrl.hostname)) {
      const name = ownUrl?.hostname ?? "a request without Host";
      return problem(403, "forbidden", `this server does not answer to ${name}`, "set INNGEST_SERVE_ORIGIN to its URL");
    }
    const origin = context.req.header("origin");
    const remedy = "open the dashboard at this server's own address; a proxy must pass on the browser's Host";
    if (origin !== undefined && urlOf(origin)?.host !== ownUrl.host) {
      return problem(403, "forbidden", `requests from pages of ${origin} are refused`, remedy);
    }
    return next();
  };
}

function urlOf(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null; // sandboxed pages send `null`, which is not a URL
  return url === null || url.hostname === "" ? null : url;
}

/** Compares keys in constant time. */
export function sameKey(given: string, expected: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}

/** Lets only admin keys of the default tenant through, for what is about all tenants. */
export const onlyOperators =
  (callers: Callers): MiddlewareHandler =>
  async ({ req }, next) => {
    const given = /^Bearer (\S+)$/i.exec(req.header("authorization") ?? "")?.[1];
    const caller = given === undefined ? null : await callers.withKey(given);
    if (caller !== null && runsServer(caller) && caller.scope === "admin") return next();
    if (caller !== null)
      return problem(403, "forbidden", "this is about all tenants", "use an admin key of the tenant default");
    const what = given === undefined ? "this request has no key" : "the key is wrong, expired or revoked";
    return problem(
      401,
      "unauthorized",
      what,
      "send Authorization: Bearer KEY; `wavesmith serve` prints where the key is",
    );
  };
