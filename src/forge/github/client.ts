import { createAppAuth } from "@octokit/auth-app";
import { Octokit } from "@octokit/core";
import { retry } from "@octokit/plugin-retry";
import { throttling } from "@octokit/plugin-throttling";
import { ForgeError } from "../port.ts";
import type { GitHubSettings } from "../settings.ts";
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
  secrets(): Readonly<Record<string, string>>;
}

export function createClients(settings: GitHubSettings): GitHubClients {
  const { credential, apiUrl } = settings;
  const minted = new Map<string, string>();
  const installations = new Map<string, Promise<GitHubClient>>();
  const make = (options: Record<string, unknown>, token: (octokit: Octokit) => Promise<string>): GitHubClient => {
    const octokit = new Paced({ ...clientOptions(apiUrl), ...options });
    octokit.hook.before("request", (given) => {
      // A write may have taken effect even though its answer was lost.
      if (given.method !== "GET" && given.method !== "HEAD") given.request = { ...given.request, retries: 0 };
    });
    const guarded = (async (...args: Parameters<Request>) => {
      try {
        return await octokit.request(...args);
      } catch (error) {
        throw failureOf(error);
      }
    }) as Request;
    return {
      request: guarded,
      graphql: async (query, variables) => {
        try {
          return await octokit.graphql(query, variables);
        } catch (error) {
          throw failureOf(error);
        }
      },
      token: () => token(octokit),
    };
  };
  if (credential === null) return signedOut();
  if (credential.kind === "token") {
    const client = make({ auth: credential.token }, async () => credential.token);
    return { of: async () => client, own: () => client, secrets: () => ({ "github.token": credential.token }) };
  }
  const { appId, privateKey } = credential;
  const app = make({ authStrategy: createAppAuth, auth: { appId, privateKey } }, async () => "");
  const clientOf = async (repository: string): Promise<GitHubClient> => {
    const installationId = await installationOf(app, repository);
    const auth = { appId, privateKey, installationId };
    return make({ authStrategy: createAppAuth, auth }, async (octokit) => {
      const { token } = (await octokit.auth({ type: "installation" })) as { token: string };
      minted.set(`github.installation.${installationId}`, token);
      return token;
    });
  };
  return {
    own: () => app,
    secrets: () => ({ "github.app-key": privateKey, ...Object.fromEntries(minted) }),
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

function signedOut(): GitHubClients {
  const refuse = (): never => {
    throw new ForgeError("unauthorized", "nobody has signed in to GitHub here", {
      remedy: "wavesmith github setup",
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
