import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { appPage, convertManifest } from "./github-apps.ts";
import { type Answer, routes } from "./github-routes.ts";
import { createGitHubState, type GitHubState, type Repository, type User } from "./github-state.ts";

// GitHub on loopback: git over smart HTTP with `git http-backend`, and the REST and GraphQL calls
// that we make. Its answers have the types of `@octokit/openapi-types`.

const run = promisify(execFile);

/**
 * One call, such as `POST /repos/{owner}/{repo}/pulls`; git's calls are `git-receive-pack` and the
 * like.
 */
export interface GitHubCall {
  readonly method: string;
  readonly path: string;
  /** The route's pattern, or git's service. */
  readonly route: string;
  readonly user: string | null;
  status: number;
}

export interface GitHubFault {
  /** Which calls fail: a route, or part of one. */
  readonly route: string;
  /** Which of them, from 1; default: all. */
  readonly nth?: number;
  /** `before`: nothing was done. `after`: it was done, but the answer is lost. */
  readonly when: "before" | "after";
  /** Default: the connection breaks. */
  readonly answer?: { readonly status: number; readonly message: string; readonly headers?: Record<string, string> };
  readonly delayMs?: number;
  /**
   * Called instead of answering, or before the answer if it returns "goes on". A test kills the
   * caller here.
   */
  readonly act?: () => undefined | "goes on" | Promise<undefined | "goes on">;
}

export interface GitHubServer {
  readonly url: string;
  readonly state: GitHubState;
  readonly calls: GitHubCall[];
  /** Makes calls fail until `clear` is called. */
  fault(fault: GitHubFault): { clear(): void; readonly seen: () => number };
  /** Makes every call from now on hit the primary rate limit, until `reset`. */
  rateLimit(reset: Date | null): void;
  /** Creates a repository, with a first commit unless `files` is null. */
  repository(name: string, files?: Readonly<Record<string, string>> | null): Promise<Repository>;
  /** Commits a file to a branch as a person would; with `force`, replaces the branch's history. */
  commit(
    name: string,
    change: { branch: string; path: string; text: string; force?: boolean; from?: string },
  ): Promise<string>;
  /** Runs git in a repository of the server. */
  git(name: string, ...args: string[]): Promise<string>;
  close(): Promise<void>;
}

export async function createGitHubServer(): Promise<GitHubServer> {
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-github-"));
  const state = createGitHubState(folder);
  const calls: GitHubCall[] = [];
  const faults = new Map<GitHubFault, number>();
  let limitReset: Date | null = null;
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(JSON.stringify({ message: String(error) }));
    });
  });

  const meet = async (call: GitHubCall, when: GitHubFault["when"]): Promise<GitHubFault | null> => {
    for (const [fault, seen] of faults) {
      if (fault.when !== when || !`${call.method} ${call.route}`.includes(fault.route)) continue;
      faults.set(fault, seen + 1);
      if (fault.nth !== undefined && fault.nth !== seen + 1) continue;
      if (fault.delayMs !== undefined) await delay(fault.delayMs);
      if (fault.delayMs !== undefined && fault.answer === undefined && fault.act === undefined) continue;
      if ((await fault.act?.()) === "goes on") continue;
      return fault;
    }
    return null;
  };

  const fail = (call: GitHubCall, response: ServerResponse, fault: GitHubFault): void => {
    call.status = fault.answer?.status ?? 0;
    if (fault.answer === undefined) return void response.destroy();
    const { status, message, headers } = fault.answer;
    send(response, { status, body: { message }, headers });
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", base());
    // Enterprise has its API below this path.
    url.pathname = url.pathname.replace(/^\/api(?:\/v3(?=\/)|(?=\/graphql$))/, "");
    const body = await bytesOf(request);
    const user = state.userOf(request.headers.authorization ?? "");
    const service = gitService(url);
    const method = request.method ?? "GET";
    const path = url.pathname;
    const found = service === null ? findRoute(method, withName(path)) : null;
    const route = service ?? found?.pattern ?? path;
    const call: GitHubCall = { method, path, route, user: user?.login ?? null, status: 0 };
    calls.push(call);
    const early = await meet(call, "before");
    if (early !== null) return fail(call, response, early);
    if (service !== null) return gitAnswer({ request, response, url, body, user, call });
    if (limitReset !== null) {
      const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(Math.ceil(+limitReset / 1000)) };
      call.status = 403;
      return send(response, { status: 403, body: { message: "API rate limit exceeded for user." }, headers });
    }
    const text = body.toString("utf8");
    const page = appPage(state, { method, url, body: text });
    if (page !== null) return send(response, page);
    const made = await handle(found, { method, url, user, body: text === "" ? {} : JSON.parse(text) });
    call.status = made.status;
    const late = await meet(call, "after");
    if (late !== null) return fail(call, response, late);
    send(response, conditional(made, request, call));
  };

  /** Answers 304 if the caller already has this answer, as GitHub does. */
  const conditional = (made: Answer, request: IncomingMessage, call: GitHubCall): Answer => {
    if (call.method !== "GET" || made.body instanceof Readable) return made;
    const etag = `W/"${createHash("sha1").update(JSON.stringify(made.body)).digest("hex")}"`;
    const headers = { ...made.headers, etag };
    if (request.headers["if-none-match"] !== etag) return { ...made, headers };
    call.status = 304;
    return { status: 304, body: null, headers };
  };

  /** A path below a repository's id means the same as one below its name. */
  const withName = (path: string): string => {
    const [, id, below] = /^\/repositories\/(\d+)(\/.+)$/.exec(path) ?? [];
    const repository = state.repositories.find((one) => one.id === Number(id));
    return repository === undefined ? path : `/repos/${repository.fullName}${below}`;
  };

  const base = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const handle = async (
    found: ReturnType<typeof findRoute>,
    { method, url, user, body }: { method: string; url: URL; user: User | null; body: Record<string, unknown> },
  ): Promise<Answer> => {
    const [, code] = /^\/app-manifests\/([^/]+)\/conversions$/.exec(url.pathname) ?? [];
    if (method === "POST" && code !== undefined) return convertManifest(state, code, base());
    if (user === null) return { status: 401, body: { message: "Bad credentials" } };
    if (found === null) return { status: 404, body: { message: "Not Found" } };
    const below = url.pathname.replace(/^\/repos\/[^/]+\/[^/]+/, "") + url.search;
    const { parameters } = found;
    const context = { state, user, body, query: url.searchParams, parameters, base: base(), method, below, git };
    return found.handler(context);
  };

  const gitAnswer = async (given: {
    request: IncomingMessage;
    response: ServerResponse;
    url: URL;
    body: Buffer;
    user: User | null;
    call: GitHubCall;
  }): Promise<void> => {
    const { request, response, url, body, user, call } = given;
    const [, owner, name, rest] = /^\/([^/]+)\/([^/]+?)(?:\.git)?(\/.*)$/.exec(url.pathname) ?? [];
    const repository = state.find(`${owner}/${name}`);
    const refuse = (status: number, headers: Record<string, string> = {}): void => {
      call.status = status;
      response.writeHead(status, headers).end();
    };
    if (user === null) return refuse(401, { "www-authenticate": 'Basic realm="GitHub"' });
    if (repository === null || rest === undefined) return refuse(404);
    if (repository.fullName !== `${owner}/${name}`) {
      return refuse(301, { location: `${base()}/${repository.fullName}.git${rest}${url.search}` });
    }
    if (!user.mayPush && call.route.includes("receive-pack")) return refuse(403);
    await httpBackend(repository, { request, response, body, rest, query: url.search.slice(1) }, async () => {
      call.status = 200;
      const late = await meet(call, "after");
      if (late !== null) fail(call, response, late);
      return late === null;
    });
  };

  const git = async (name: string, ...args: string[]): Promise<string> => {
    const repository = state.find(name);
    if (repository === null) throw new Error(`no repository ${name}`);
    return (await run("git", ["-C", repository.folder, ...args], { env: gitEnvironment })).stdout.trim();
  };

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: base(),
    state,
    calls,
    git,
    fault(fault) {
      faults.set(fault, 0);
      return { clear: () => void faults.delete(fault), seen: () => faults.get(fault) ?? 0 };
    },
    rateLimit: (reset) => {
      limitReset = reset;
    },
    async repository(name, files = { "README.md": "# Hello\n" }) {
      const made = await state.create(name);
      for (const [path, text] of Object.entries(files ?? {})) await commitFile(made, { branch: "main", path, text });
      return made;
    },
    commit: (name, change) => commitFile(state.find(name)!, change),
    async close() {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const gitEnvironment = {
  PATH: process.env.PATH ?? "",
  HOME: "/",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "A person",
  GIT_AUTHOR_EMAIL: "person@example.org",
  GIT_COMMITTER_NAME: "A person",
  GIT_COMMITTER_EMAIL: "person@example.org",
};

async function commitFile(
  { folder }: Repository,
  change: { branch: string; path: string; text: string; force?: boolean; from?: string },
): Promise<string> {
  const git = async (args: readonly string[], input = ""): Promise<string> => {
    const child = run("git", ["-C", folder, ...args], { env: { ...gitEnvironment, GIT_INDEX_FILE: indexFile } });
    // Some commands read no input.
    child.child.stdin?.on("error", () => undefined);
    child.child.stdin?.end(input);
    return (await child).stdout.trim();
  };
  const indexFile = join(folder, `index-${createHash("sha1").update(JSON.stringify(change)).digest("hex")}`);
  const ref = `refs/heads/${change.branch}`;
  const from = change.from ?? ref;
  const parent = change.force ? "" : await git(["rev-parse", "--verify", "-q", from]).catch(() => "");
  if (parent !== "") await git(["read-tree", parent]);
  const blob = await git(["hash-object", "-w", "--stdin"], change.text);
  await git(["update-index", "--add", "--cacheinfo", `100644,${blob},${change.path}`]);
  const tree = await git(["write-tree"]);
  const parents = parent === "" ? [] : ["-p", parent];
  const sha = await git(["commit-tree", tree, ...parents, "-m", `Change ${change.path}`]);
  await git(["update-ref", ref, sha]);
  await rm(indexFile, { force: true });
  return sha;
}

function gitService(url: URL): string | null {
  if (url.pathname.endsWith("/info/refs")) return `info/refs ${url.searchParams.get("service")}`;
  return /\/(git-(?:receive|upload)-pack)$/.exec(url.pathname)?.[1] ?? null;
}

/** Runs git's own CGI program for one call. */
function httpBackend(
  { folder, protectedBranches }: Repository,
  given: { request: IncomingMessage; response: ServerResponse; body: Buffer; rest: string; query: string },
  done: () => Promise<boolean>,
): Promise<void> {
  const { request, response, body, rest, query } = given;
  const env = {
    ...gitEnvironment,
    // The folder keeps its name when the repository is renamed.
    GIT_PROJECT_ROOT: dirname(folder),
    PATH_INFO: `/${basename(folder)}${rest}`,
    GIT_HTTP_EXPORT_ALL: "1",
    REMOTE_USER: "pusher",
    REQUEST_METHOD: request.method ?? "GET",
    QUERY_STRING: query,
    CONTENT_TYPE: request.headers["content-type"] ?? "",
    CONTENT_LENGTH: String(body.length),
    HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
    GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
    PROTECTED: [...protectedBranches].map((branch) => `refs/heads/${branch}`).join(" "),
  };
  return new Promise((resolve, reject) => {
    const child = spawn("git", ["http-backend"], { env, stdio: ["pipe", "pipe", "ignore"] });
    const chunks: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.on("error", reject);
    child.on("close", async () => {
      const out = Buffer.concat(chunks);
      const split = out.indexOf("\r\n\r\n");
      const lines = out.subarray(0, split).toString("latin1").split("\r\n");
      const headers = lines.map(
        (line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const,
      );
      const status = Number.parseInt(headers.find(([name]) => name === "Status")?.[1] ?? "200", 10);
      if (await done()) {
        response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== "Status")));
        response.end(out.subarray(split + 4));
      }
      resolve();
    });
    child.stdin.on("error", () => undefined);
    child.stdin.end(body);
  });
}

function findRoute(method: string, path: string) {
  for (const [key, handler] of Object.entries(routes)) {
    const [verb, pattern = ""] = key.split(" ");
    if (verb !== method) continue;
    const names: string[] = [];
    const source = pattern.replace(/\{(\w+)\}/g, (_, name: string) => {
      names.push(name);
      // Branch names may have slashes.
      return name === "branch" || name === "ref" || name === "path" ? "(.+)" : "([^/]+)";
    });
    const match = new RegExp(`^${source}$`).exec(path);
    if (match === null) continue;
    const values = match.slice(1).map((value) => decodeURIComponent(value));
    return { pattern, handler, parameters: Object.fromEntries(names.map((name, index) => [name, values[index]!])) };
  }
  return null;
}

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers });
  if (body instanceof Readable) body.on("error", () => response.destroy()).pipe(response);
  else response.end(status === 204 || status === 304 ? "" : typeof body === "string" ? body : JSON.stringify(body));
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
