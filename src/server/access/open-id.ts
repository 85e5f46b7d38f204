import { createHash, randomBytes } from "node:crypto";
import * as oidc from "openid-client";
import type { Person } from "../../api/keys.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import { type OpenIdProvider, rightsOf } from "../../domain/access.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

// OI1. What ties the provider's answer to the browser that asked (state, nonce, PKCE's verifier) is
// derived from one secret in that browser's cookie, so no sign-in can be finished elsewhere, and
// the server stores nothing.

/** Signing in at an OpenID provider: OpenID Connect's authorization code flow with PKCE. */
export interface OpenIdSignIn {
  /** The provider's name for people. */
  readonly name: string;
  /**
   * Returns the provider's page, which leads back to `callback`, and the secret of this sign-in.
   * Fails with `environment`, retryable, when the provider does not answer.
   */
  begin(callback: string): Promise<{ readonly url: URL; readonly secret: string }>;
  /**
   * Returns who came back to `callback`, whose query has the provider's answer. Fails with
   * `usage` for an answer to another sign-in and for somebody without rights.
   */
  finish(callback: URL, secret: string): Promise<Person>;
}

/** Signs people in at a provider. It is first called when somebody signs in. */
export function createOpenIdSignIn(provider: OpenIdProvider): OpenIdSignIn {
  const name = new URL(provider.issuer).host;
  let known: Promise<oidc.Configuration> | null = null;
  const discovered = async (): Promise<oidc.Configuration> => {
    known ??= discover(provider);
    try {
      return await known;
    } catch (error) {
      known = null;
      throw new WavesmithError("environment", `the provider ${provider.issuer} cannot be used: ${reasonOf(error)}`, {
        retryable: true,
        remedy: "try again, or sign in with a key; WAVESMITH_OIDC_ISSUER names the provider",
        cause: error,
      });
    }
  };
  return {
    name,
    async begin(callback) {
      const secret = randomBytes(32).toString("base64url");
      const { state, nonce, verifier } = derived(secret);
      const url = oidc.buildAuthorizationUrl(await discovered(), {
        ...{ redirect_uri: callback, scope: "openid email", state, nonce },
        code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
      });
      return { url, secret };
    },
    async finish(callback, secret) {
      const config = await discovered();
      const address = await addressOf(config, callback, derived(secret)).catch((error: unknown) => {
        if (error instanceof WavesmithError) throw error;
        throw new WavesmithError("usage", `${name} did not sign you in: ${reasonOf(error)}`, { cause: error });
      });
      const rights = rightsOf(provider.rights, address);
      if (rights === null)
        throw new WavesmithError("usage", `the address ${address} may not use this server`, {
          remedy: "ask its administrator to add the address to WAVESMITH_OIDC_PEOPLE, or for a key",
        });
      const { scope, tenant } = rights;
      return { address, scope, tenant: tenant ?? defaultTenant, issuer: provider.issuer };
    },
  };
}

async function discover({ issuer, clientId, clientSecret }: OpenIdProvider): Promise<oidc.Configuration> {
  // The setting allows http: for this machine only.
  const execute = issuer.startsWith("http:") ? [oidc.allowInsecureRequests] : [];
  const found = await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), { execute });
  if (clientSecret === null) return found;
  const server = found.serverMetadata();
  // OpenID Connect Core 9: basic, unless the provider says otherwise.
  const isBasic = server.token_endpoint_auth_methods_supported?.includes("client_secret_basic") ?? true;
  const auth = isBasic ? oidc.ClientSecretBasic(clientSecret) : oidc.ClientSecretPost(clientSecret);
  const config = new oidc.Configuration(server, clientId, undefined, auth);
  for (const apply of execute) apply(config);
  return config;
}

/** Redeems the code, and returns the mail address that the provider has verified. */
async function addressOf(config: oidc.Configuration, callback: URL, expected: Derived): Promise<string> {
  const tokens = await oidc.authorizationCodeGrant(config, callback, {
    expectedState: expected.state,
    expectedNonce: expected.nonce,
    pkceCodeVerifier: expected.verifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new Error("it sent no ID token");
  // Providers may keep the address for their userinfo endpoint.
  const { email, email_verified: isVerified } =
    claims.email === undefined ? await oidc.fetchUserInfo(config, tokens.access_token, claims.sub) : claims;
  if (typeof email !== "string" || email.length > 80) throw new Error("it named no mail address");
  if (isVerified !== true)
    throw new WavesmithError("usage", `the address ${email} is not verified`, {
      remedy: "verify it at the provider; whoever runs that must let it send the claim email_verified",
    });
  return email.toLowerCase();
}

interface Derived {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

function derived(secret: string): Derived {
  const of = (use: string): string => createHash("sha256").update(`${use} ${secret}`).digest("base64url");
  return { state: of("state"), nonce: of("nonce"), verifier: of("verifier") };
}

/** Returns the provider's own words where it sent any. */
function reasonOf(error: unknown): string {
  if (error instanceof oidc.AuthorizationResponseError || error instanceof oidc.ResponseBodyError)
    return error.error_description ?? error.error;
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${messageOf(error)}${cause}`;
}
