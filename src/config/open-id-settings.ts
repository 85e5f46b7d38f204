import { z } from "zod";
import { scopes } from "../domain/access.ts";

const person = `[^\\s@,=]*@[^\\s@,=]+=(?:[^,=/]+/)?(?:${scopes.join("|")})`;

/** The OpenID provider with which people sign in. */
export const openIdSettings = {
  WAVESMITH_OIDC_ISSUER: z
    .string()
    // Without TLS anybody on the way could sign in as anybody.
    .regex(/^(https:\/\/[^\s?#]+|http:\/\/(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(\/[^\s?#]*)?)$/, {
      error: "must be a URL that begins with https://, such as https://accounts.google.com",
    })
    .optional()
    .describe("an OpenID provider with which people sign in to the dashboard, besides keys"),
  WAVESMITH_OIDC_CLIENT_ID: z.string().min(1).optional().describe("the id that the provider gave this server"),
  WAVESMITH_OIDC_CLIENT_SECRET: z
    .string()
    .min(1)
    .optional()
    .describe("the secret that goes with it, unless the provider gave none"),
  WAVESMITH_OIDC_PEOPLE: z
    .string()
    .regex(new RegExp(`^\\s*${person}(\\s*,\\s*${person})*\\s*$`), {
      error: `must be ADDRESS=SCOPE or @DOMAIN=SCOPE, several with commas; a scope is ${scopes.join(", ")}`,
    })
    .optional()
    .describe(
      "who may sign in there and do what: `ada@example.com=admin,@example.com=build,@acme.com=acme/read`; the last is for the tenant `acme`, and an address counts before its domain",
    ),
} as const;
