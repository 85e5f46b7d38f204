import { finished } from "node:stream/promises";
import type { HttpBindings } from "@hono/node-server";
import type { MiddlewareHandler } from "hono";
import { type BodyPatience, bodyInTime } from "./slow-body.ts";

// UB1. A refusal often comes before the client has sent its whole body. If we closed the connection
// then, the next bytes would reset it, and the client could lose the refusal. So we send the
// refusal at once, and close only when the client has sent the rest, which we drop, or its time is
// over.

/** Lets clients send the rest of a body that we refused, so that they get the refusal (UB1). */
export const dropUnreadBody =
  (patience: BodyPatience): MiddlewareHandler<{ Bindings: HttpBindings }> =>
  async (context, next) => {
    await next();
    const { incoming } = context.env;
    const { ok, status, headers } = context.res;
    if (ok || incoming.complete) return;
    const refusal = new Uint8Array(await context.res.arrayBuffer());
    headers.set("connection", "close");
    headers.set("content-length", String(refusal.length));
    async function* answer() {
      yield refusal;
      // The code that read the body has given up; it would hold up the rest.
      incoming.removeAllListeners("data").resume();
      // Without an end or in time: either way the connection is closed now.
      await bodyInTime(finished(incoming), patience).catch(() => undefined);
    }
    context.res = new Response(ReadableStream.from(answer()), { status, headers });
  };
