import { createAppAuth } from "@octokit/auth-app";
import { Octokit } from "@octokit/core";
import { retry } from "@octokit/plugin-retry";
import { throttling } from "@octokit/plugin-throttling";
import { ForgeError } from "../port.ts";
import type { GitHubCredential, GitHubSettings } from "../settings.ts";
import { failureOf } from "./failures.ts";

// Writes are spaced out as GitHub asks. When a rate limit is reached we do not wait here: the
// delivery's row says when to try again, so that nothing else is held up. Only reads are retried at
// once, because a write that failed may still have taken effect (FP1).

const Paced = Octokit.plugin(throttling, retry);
type Request = Octokit["request"];

/** Calls GitHub's API as one installation or user. */
export interface GitHubClient {
  readonly request: Request;
  graphql<Answer>(query: string, variables: Record<string, unknown>): Promise<Answer>;
  /** The token that this client sends now. */
  token(): Promise<string>;
}

export interface GitHubClients {
  /** The client for a repository's owner. Fails with `unauthorized` when nobody has signed in. */
  of(repository: string): Promise<GitHubClient>;
  /** The client that acts as the token's user or as the App itself. */
  own(): GitHubClient;
  /** The client without a credential. */
  anonymous(): GitHubClient;
  /** The credential in use now; null: nobody has signed in. */
  credential(): GitHubCredential | null;
  /** Every secret used so far, those of earlier credentials included. */
  secrets(): Readonly<Record<string, string>>;
}

/** Calls GitHub with the current credential, which may change between two calls. */
export function createClients({ apiUrl, credential }: GitHubSettings): GitHubClients {
  const former: Record<string, string> = {};
  let used: { readonly credential: GitHubCredential | null; readonly clients: SignedIn } | null = null;
  let changes = 0;
  const now = (): SignedIn => {
    const wanted = credential();
    if (used !== null && used.credential === wanted) return used.clients;
    changes += 1;
    for (const [name, secret] of Object.entries(used?.clients.secrets() ?? {})) former[`${name}.${changes}`] = secret;
    used = { credential: wanted, clients: signIn(apiUrl, wanted) };
    return used.clients;
  };
  return {
    credential,
    of: async (repository) => now().of(repository),
    own: () => now().own(),
    anonymous: () => createClient(apiUrl, { token: async () => "" }),
    secrets() {
      try {
        now();
      } catch {
        // The next call to GitHub says that the credential cannot be read.
      }
      return { ...former, ...used?.clients.secrets() };
    },
  };
}

type SignedIn = Pick<GitHubClients, "of" | "own" | "secrets">;

function signIn(apiUrl: string, credential: GitHubCredential | null): SignedIn {
  const minted: string[] = [];
  const installations = new Map<string, Promise<GitHubClient>>();
  const make = (options: ClientOptions) => createClient(apiUrl, options);
  if (credential === null) return signedOut();
  if (credential.kind === "token") {
    const client = make({ auth: credential.token, token: async () => credential.token });
    return { of: async () => client, own: () => client, secrets: () => ({ "github.token": credential.token }) };
  }
  const { appId, privateKey, webhookSecret } = credential;
  const app = make({ authStrategy: createAppAuth, auth: { appId, privateKey }, token: async () => "" });
  const clientOf = async (repository: string): Promise<GitHubClient> => {
    const installationId = await installationOf(app, repository);
    const auth = { appId, privateKey, installationId };
    const token: ReadToken = async (octokit) => {
      const current = await installationToken(octokit);
      if (minted.at(-1) !== current) minted.push(current);
      // Older ones have ended.
      minted.splice(0, minted.length - mostMinted);
      return current;
    };
    const renew: ReadToken = (octokit) => installationToken(octokit, true);
    return make({ authStrategy: createAppAuth, auth, token, renew });
  };
  return {
    own: () => app,
    secrets: () => ({
      "github.app-key": privateKey,
      ...(webhookSecret === undefined ? {} : { "github.webhook-secret": webhookSecret }),
      ...Object.fromEntries(minted.map((token, index) => [`github.installation.${index}`, token])),
    }),
    of(repository) {
      const owner = ownerOf(repository);
      const known = installations.get(owner) ?? clientOf(repository);
      installations.set(owner, known);
      // An App may be installed later.
      known.catch(() => installations.delete(owner));
      return known;
    },
  };
}

type ReadToken = (octokit: Octokit) => Promise<string>;

interface ClientOptions extends Record<string, unknown> {
  readonly token: ReadToken;
  /** Gets another token; absent: nothing can. */
  readonly renew?: ReadToken;
}

function createClient(apiUrl: string, { token, renew, ...options }: ClientOptions): GitHubClient {
  const octokit = new Paced({ ...clientOptions(apiUrl), ...options });
  octokit.hook.before("request", (given) => {
    // A write may have taken effect even though its answer was lost.
    if (given.method !== "GET" && given.method !== "HEAD") given.request = { ...given.request, retries: 0 };
  });
  const once = async <Result>(call: () => Promise<Result>): Promise<Result> => {
    try {
      return await call();
    } catch (error) {
      throw failureOf(error);
    }
  };
  const send = async <Result>(call: () => Promise<Result>): Promise<Result> =>
    once(call).catch(async (error: ForgeError) => {
      if (error.fault !== "unauthorized" || renew === undefined) throw error;
      // GitHub did nothing for a token that has ended or was revoked.
      await once(() => renew(octokit));
      return once(call);
    });
  return {
    request: ((...args: Parameters<Request>) => send(() => octokit.request(...args))) as Request,
    graphql: <Answer>(query: string, variables: Record<string, unknown>) =>
      send(() => octokit.graphql<Answer>(query, variables)),
    token: () => token(octokit),
  };
}

/** A push may take this long with a token. */
const leastTokenMs = 5 * 60_000;
/** How many installation tokens are masked. */
const mostMinted = 20;

/** Returns a token of an installation that works for some minutes more. */
async function installationToken(octokit: Octokit, refresh = false): Promise<string> {
  const authentication = await octokit.auth({ type: "installation", refresh });
  const { token, expiresAt } = authentication as { token: string; expiresAt: string };
  const isOld = Date.parse(expiresAt) - Date.now() < leastTokenMs;
  return isOld && !refresh ? installationToken(octokit, true) : token;
}

function signedOut(): SignedIn {
  const refuse = (): never => {
    throw new ForgeError("unauthorized", "nobody has signed in to GitHub here", {
      remedy: "wavesmith github connect",
    });
  };
  return { of: async () => refuse(), own: refuse, secrets: () => ({}) };
}

const ownerOf = (repository: string): string => repository.split("/")[0] ?? "";

function clientOptions(apiUrl: string): Record<string, unknown> {
  // A server on this machine is a proxy or a test, so requests to it need no spacing.
  const isPaced = !/^(localhost|127\.|\[::1\])/.test(new URL(apiUrl).hostname);
  const refuse = (): boolean => false;
  return {
    baseUrl: apiUrl,
    userAgent: "wavesmith",
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    throttle: { enabled: isPaced, onRateLimit: refuse, onSecondaryRateLimit: refuse },
    retry: { retries: 1, ...(isPaced ? {} : { retryAfterBaseValue: 20 }) },
    request: { fetch: fetchInTime },
  };
}

// Octokit has no time limit of its own. GitHub gives up after 10 s.
const fetchInTime: typeof fetch = (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(12_000) });

const quiet = (): void => undefined;

/** Finds where the App is installed for a repository, or for its owner while it does not exist. */
async function installationOf(app: GitHubClient, repository: string): Promise<number> {
  const [owner = "", repo = ""] = repository.split("/");
  const tries = [
    () => app.request("GET /repos/{owner}/{repo}/installation", { owner, repo }),
    () => app.request("GET /users/{username}/installation", { username: owner }),
  ];
  for (const find of tries) {
    const found = await find().catch((error: unknown) => {
      if (error instanceof ForgeError && error.fault === "not-found") return null;
      throw error;
    });
    if (found !== null) return found.data.id;
  }
  throw new ForgeError("not-found", `the GitHub App is not installed for ${repository}`, {
    remedy: `install it for ${owner} on GitHub, under Settings → GitHub Apps`,
  });
}
