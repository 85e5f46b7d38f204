import { createHash, timingSafeEqual } from "node:crypto";
import { isIPv4 } from "node:net";
import type { MiddlewareHandler } from "hono";
import { problem } from "./problem.ts";

// G1. Without keys the server listens on loopback alone, and answers only requests that name it so: a web page the
//     user has open can send requests to loopback, by its own name (a Host of the page's making, bound to 127.0.0.1)
//     or across origins (an Origin that is not ours).

/** Whether only this machine can reach a server that listens on `host`. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  return name === "localhost" || name === "::1" || (isIPv4(name) && name.startsWith("127."));
}

/** How this machine is called from a container of this machine; no name that a stranger can bind. */
const ownNames = new Set(["host.docker.internal", "host.containers.internal"]);

/** Refuses requests whose Host or Origin is not this machine's. */
export function onlyThisMachine(): MiddlewareHandler {
  return async (context, next) => {
    const host = nameOf(`http://${context.req.header("host") ?? ""}`);
    if (host === null || !(isLoopback(host) || ownNames.has(host))) {
      return problem(
        403,
        "forbidden",
        `this server answers to localhost only, not to ${host ?? "a request without Host"}`,
      );
    }
    const origin = context.req.header("origin");
    const asking = origin === undefined ? "localhost" : nameOf(origin);
    if (asking === null || !isLoopback(asking)) {
      return problem(403, "forbidden", `requests from pages of ${origin} are refused`);
    }
    return next();
  };
}

function nameOf(url: string): string | null {
  try {
    const { hostname } = new URL(url);
    return hostname === "" ? null : hostname;
  } catch {
    return null; // `null`, as sandboxed pages send it, or no URL at all
  }
}

/** Compares keys without telling by the time it takes how much of one was right. */
export function sameKey(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}
