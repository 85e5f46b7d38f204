import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { appCaller, type GitHubApp } from "./github-apps.ts";

const run = promisify(execFile);

export interface User {
  readonly login: string;
  readonly kind: "user" | "installation" | "app";
  readonly scopes: readonly string[];
  mayPush: boolean;
  /** The App that it is, if that was made from a manifest. */
  readonly appId?: number;
  /** When its token expires; absent: never. */
  readonly expiresAt?: Date;
}

export interface Pull {
  readonly number: number;
  title: string;
  body: string;
  head: string;
  base: string;
  state: "open" | "closed";
  merged: boolean;
  mergeSha: string | null;
  mergeable: boolean | null;
  queued: boolean;
  /** The repository that holds its head; absent: this one. */
  readonly fork?: string;
  /** Without `sha` it is a review of the head. */
  readonly reviews: { user: string; state: string; association: string; sha?: string }[];
  readonly comments: { id: number; body: string; user: string }[];
}

export interface CheckRun {
  readonly id: number;
  name: string;
  sha: string;
  externalId: string;
  status: string;
  conclusion: string | null;
  output: unknown;
  readonly suiteId?: number;
}

export interface Repository {
  readonly id: number;
  fullName: string;
  readonly folder: string;
  isPrivate: boolean;
  readonly pulls: Pull[];
  /** Comments of issues that are not pull requests, by number. */
  readonly issues: Map<number, { readonly comments: Pull["comments"] }>;
  readonly checkRuns: CheckRun[];
  /** Every status ever written, oldest first. */
  readonly statuses: { sha: string; context: string; state: string; description: string }[];
  /** What `GET /repos/{owner}/{repo}/events` lists, oldest first. */
  readonly events: { id: string; type: string; actor: { login: string }; payload: object; created_at: string }[];
  /** How long callers are asked to wait. */
  pollSeconds: number;
  readonly protectedBranches: Set<string>;
  readonly requiredChecks: string[];
  /** Logs of jobs by id, produced when they are read. */
  readonly logs: Map<number, () => Iterable<string>>;
  /** Logins with write access besides the usual user. */
  readonly writers: Set<string>;
  requiredApprovals: number;
  hasMergeQueue: boolean;
  /**
   * Whether the queue merges a request the next time somebody looks at it; otherwise the test
   * merges it.
   */
  mergesQueued: boolean;
}

export interface GitHubState {
  /** Users by their token. */
  readonly users: Map<string, User>;
  readonly repositories: Repository[];
  /** The organisations and users that may own repositories; all others are unknown. */
  readonly organisations: Set<string>;
  readonly apps: GitHubApp[];
  /** Manifests that a person has sent but not confirmed yet. */
  readonly manifests: Map<number, { readonly text: string; readonly owner: string; readonly state: string }>;
  /** How long an installation's token works; one hour on GitHub. */
  installationTokenMs: number;
  nextId(): number;
  userOf(authorization: string): User | null;
  /** Finds a repository by its present or a former name. */
  find(fullName: string): Repository | null;
  create(fullName: string): Promise<Repository>;
  rename(from: string, to: string): void;
  revoke(token: string): void;
}

/** The token of the fake's usual user, `octo`. */
export const usualToken = "ghp_usualTokenOfOcto0123456789";

/** Refuses pushes to protected branches, in GitHub's words. */
const protection = `#!/bin/sh
while read old new ref; do
  for protected in $PROTECTED; do
    if [ "$ref" = "$protected" ]; then
      echo "error: GH006: Protected branch update failed for $ref." >&2
      exit 1
    fi
  done
done
`;

export function createGitHubState(folder: string): GitHubState {
  const users = new Map<string, User>();
  const scopes = ["repo", "workflow"];
  users.set(usualToken, { login: "octo", kind: "user", scopes, mayPush: true });
  const repositories: Repository[] = [];
  const former = new Map<string, Repository>();
  let last = 1000;
  const state: GitHubState = {
    users,
    repositories,
    organisations: new Set(["octo-org"]),
    apps: [],
    manifests: new Map(),
    installationTokenMs: 3_600_000,
    nextId: () => {
      last += 1;
      return last;
    },
    userOf(authorization) {
      const [kind = "", value = ""] = authorization.split(" ");
      const token = /^basic$/i.test(kind) ? Buffer.from(value, "base64").toString("utf8").split(":")[1] : value;
      // An App signs in with a token that it made itself.
      if (token?.startsWith("eyJ")) return appCaller(state, token);
      const user = users.get(token ?? "");
      return user === undefined || (user.expiresAt !== undefined && user.expiresAt <= new Date()) ? null : user;
    },
    find: (fullName) =>
      repositories.find((repository) => repository.fullName.toLowerCase() === fullName.toLowerCase()) ??
      former.get(fullName) ??
      null,
    async create(fullName) {
      const id = state.nextId();
      // Another repository may have taken the former name.
      const path = join(folder, String(id), `${fullName}.git`);
      await mkdir(path, { recursive: true });
      await run("git", ["init", "-q", "--bare", "--initial-branch=main", path]);
      for (const setting of [
        "http.receivepack=true",
        "uploadpack.allowAnySHA1InWant=true",
        "receive.denyDeleteCurrent=ignore",
      ]) {
        const [name = "", value = ""] = setting.split("=");
        await run("git", ["-C", path, "config", name, value]);
      }
      await mkdir(join(path, "hooks"), { recursive: true });
      await writeFile(join(path, "hooks", "pre-receive"), protection);
      await chmod(join(path, "hooks", "pre-receive"), 0o755);
      const made: Repository = {
        id,
        fullName,
        folder: path,
        isPrivate: true,
        pulls: [],
        issues: new Map(),
        checkRuns: [],
        statuses: [],
        events: [],
        pollSeconds: 60,
        protectedBranches: new Set(),
        requiredChecks: [],
        logs: new Map(),
        writers: new Set(),
        requiredApprovals: 0,
        hasMergeQueue: false,
        mergesQueued: false,
      };
      repositories.push(made);
      return made;
    },
    rename(from, to) {
      const repository = state.find(from);
      if (repository === null) throw new Error(`no repository ${from}`);
      former.set(from, repository);
      repository.fullName = to;
    },
    revoke: (token) => void users.delete(token),
  };
  return state;
}
