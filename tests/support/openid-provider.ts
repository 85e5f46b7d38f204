import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import type { OpenIdProvider } from "../../src/domain/access.ts";

/** Somebody with an account at the provider. */
export interface Account {
  readonly email: string;
  readonly isVerified?: boolean;
}

/** A real OpenID provider on loopback, with one client. */
export interface RunningProvider {
  readonly settings: OpenIdProvider;
  /** The account of whoever comes next; null: they cancel. */
  next: Account | null;
  /** Sets the only address to which it sends browsers back; call it before the first sign-in. */
  sendBackTo(callback: string): void;
  close(): Promise<void>;
}

const client = { clientId: "wavesmith", clientSecret: "a-secret-of-the-client" };

/** Starts the provider. */
export async function startOpenIdProvider(): Promise<RunningProvider> {
  let listener: RequestListener = () => undefined;
  const server = createServer((request, response) => listener(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const running: RunningProvider = {
    settings: { issuer, ...client, rights: [] },
    next: null,
    sendBackTo(callback) {
      listener = listenerOf(issuer, callback, () => running.next);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return running;
}

function listenerOf(issuer: string, callback: string, next: () => Account | null): RequestListener {
  const accounts = new Map<string, Account>();
  const { clientId: client_id, clientSecret: client_secret } = client;
  const provider = new Provider(issuer, {
    clients: [{ client_id, client_secret, redirect_uris: [callback] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    cookies: { keys: ["a key of the provider's cookies"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/people/${uid}` },
    pkce: { required: () => true },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: id, email_verified: accounts.get(id)?.isVerified ?? true }),
    }),
    async loadExistingGrant({ oidc }) {
      const grant = new provider.Grant({ clientId: client_id, accountId: oidc.session!.accountId! });
      grant.addOIDCScope("openid email");
      await grant.save();
      return grant;
    },
  });
  /** Whoever comes is signed in at once, as the account that is next. */
  const greet = (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const account = next();
    if (account === null)
      return provider.interactionFinished(request, response, {
        error: "access_denied",
        error_description: "the person cancelled",
      });
    accounts.set(account.email, account);
    return provider.interactionFinished(request, response, { login: { accountId: account.email } });
  };
  const answer = provider.callback();
  return (request, response) => {
    if (request.url?.startsWith("/people/") !== true) return void answer(request, response);
    greet(request, response).catch((error: Error) => response.writeHead(500).end(error.message));
  };
}
