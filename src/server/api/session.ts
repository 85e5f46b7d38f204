import { z } from "@hono/zod-openapi";
import { scopes, scopesWithin } from "../../domain/access.ts";
import { problem } from "../problem.ts";
import { openIdPath } from "../sign-in.ts";
import { type ApiContext, type Endpoint, endpoint } from "./endpoint.ts";

const sessionReply = z
  .looseObject({ tenant: z.string(), scopes: z.array(z.enum(scopes)), name: z.string() })
  .openapi("Session");
const keyBody = z.strictObject({ key: z.string().min(1).max(500) });

/** Signing in to the dashboard. */
export function sessionEndpoints({ callers, cookie, openId }: ApiContext): Endpoint[] {
  const refused = () =>
    problem(401, "unauthorized", "the key is wrong, expired or revoked", "create a key: wavesmith keys create NAME");
  return [
    endpoint("post /session", {
      summary: "Sign a browser in: a key becomes a cookie, and a token for the header x-wavesmith",
      needs: "nothing",
      body: keyBody,
      reply: z.looseObject({ token: z.string() }),
      status: 201,
      async handle({ body }) {
        const session = await callers.signIn(body.key);
        if (session === null) return refused();
        return { headers: cookie.set(session), body: { token: session.pageToken } };
      },
    }),
    endpoint("get /session", {
      summary: "Show who is asking: the tenant, the scopes and the name of the key",
      reply: sessionReply,
      async handle({ caller: { tenant, scope, name } }) {
        return { body: { tenant, scopes: scopesWithin(scope), name } };
      },
    }),
    endpoint("get /session/providers", {
      summary: "List where people may sign in besides with a key; a browser opens `path`, with `to` for later",
      needs: "nothing",
      reply: z.looseObject({ items: z.array(z.looseObject({ name: z.string(), path: z.string() })) }),
      async handle() {
        return { body: { items: openId === null ? [] : [{ name: openId.name, path: openIdPath }] } };
      },
    }),
    endpoint("delete /session", {
      summary: "Sign the browser out",
      needs: "nothing",
      reply: z.void(),
      status: 204,
      async handle({ header }) {
        const session = cookie.read(header);
        if (session !== null) await callers.signOut(session);
        return new Response(null, { status: 204, headers: cookie.clear() });
      },
    }),
    endpoint("post /session/link", {
      summary: "Make a link that signs a browser in once, within five minutes",
      needs: "nothing",
      body: keyBody,
      reply: z.looseObject({ path: z.string(), expiresInSeconds: z.number() }),
      status: 201,
      async handle({ body }) {
        const link = await callers.createLink(body.key);
        if (link === null) return refused();
        return { body: { path: `/sign-in?token=${link.token}`, expiresInSeconds: link.validMs / 1000 } };
      },
    }),
  ];
}
