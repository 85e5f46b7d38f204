import { z } from "@hono/zod-openapi";
import { hideSettings } from "../access/operators.ts";
import { connectPath } from "../connect-github.ts";
import type { ServedSignIn } from "../port.ts";
import { type ApiContext, type Endpoint, endpoint } from "./endpoint.ts";

const signInReply = z
  .looseObject({
    webUrl: z.string(),
    source: z.enum(["settings", "stored"]).nullable(),
    kind: z.enum(["token", "app", "none"]),
    login: z.string(),
    rights: z.array(z.string()),
    accounts: z.array(z.string()).nullable(),
    installUrl: z.string().nullable(),
    problem: z.object({ message: z.string(), remedy: z.string().nullable() }).nullable(),
    unfinished: z.object({ since: z.string(), remedy: z.string() }).nullable(),
  })
  .openapi("GitHubSignIn");

const tokenBody = z.strictObject({
  token: z
    .string()
    .trim()
    .regex(/^[\w-]{20,255}$/, "is not a GitHub token"),
});
const appBody = z.strictObject({
  organization: z
    .string()
    .trim()
    .regex(/^[\w-]{1,100}$/, "is not the name of an organisation")
    .nullable()
    .default(null),
});

/** How the server signs in to GitHub, for admins of the default tenant, who run it. */
export function githubEndpoints({ app, serveOrigin }: ApiContext): Endpoint[] {
  const connection = (): ServedSignIn => app.ports.forges.github;
  return [
    endpoint("get /github", {
      summary: "Show how the server is signed in to GitHub and what it may do there; no secrets",
      needs: "admin",
      reply: signInReply,
      async handle({ caller }) {
        hideSettings(caller);
        return { body: await show(connection()) };
      },
    }),
    endpoint("put /github/token", {
      summary: "Sign in at GitHub with a token, once GitHub has accepted it",
      needs: "admin",
      body: tokenBody,
      reply: signInReply,
      async handle({ caller, body: { token } }) {
        hideSettings(caller);
        await connection().store({ kind: "token", token });
        return { body: await show(connection()) };
      },
    }),
    endpoint("post /github/app", {
      summary: "Begin to sign in as a GitHub App; open the returned page in a browser within ten minutes",
      needs: "admin",
      body: appBody,
      status: 201,
      reply: z.looseObject({ page: z.string(), expiresAt: z.string() }),
      async handle({ caller, body: { organization }, header }) {
        hideSettings(caller);
        // The address by which the browser reaches us, which the server itself may not know.
        const origin = header("origin") ?? serveOrigin ?? `http://${header("host")}`;
        const { state, expiresAt } = await connection().beginApp({ origin, organization });
        return { status: 201, body: { page: `${origin}${connectPath(state)}`, expiresAt: expiresAt.toISOString() } };
      },
    }),
  ];
}

async function show(connection: ServedSignIn) {
  const { source, identity, problem, unfinished } = await connection.read();
  const { kind = "none", login = "", rights = [], installed = null } = identity ?? {};
  return {
    ...{ webUrl: connection.webUrl, source, kind, login, rights, problem },
    accounts: installed?.accounts ?? null,
    installUrl: installed?.url ?? null,
    unfinished: unfinished === null ? null : { ...unfinished, since: unfinished.since.toISOString() },
  };
}
