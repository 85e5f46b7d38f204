import { createPublicKey, generateKeyPairSync, randomBytes, verify } from "node:crypto";
import type { components, operations } from "@octokit/openapi-types";
import type { GitHubState, User } from "./github-state.ts";

// GitHub Apps on the loopback GitHub: the pages on which a person creates an App from a manifest
// and installs it, as GitHub documents them, and the API's answers about Apps.

type Schemas = components["schemas"];

export interface GitHubApp {
  readonly id: number;
  readonly name: string;
  readonly slug: string;
  readonly owner: string;
  readonly privateKey: string;
  readonly webhookSecret: string;
  readonly permissions: Record<string, string>;
  readonly events: readonly string[];
  readonly hook: { readonly url: string; readonly active: boolean };
  /** For the exchange, which works once. */
  code: string | null;
  /** The accounts where it is installed. */
  readonly installedFor: Set<string>;
}

interface AppAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The account that is signed in to the browser. */
const person = "octo";

const known: Readonly<Record<string, readonly string[]>> = {
  contents: ["push"],
  pull_requests: [
    ...["pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_review_thread"],
  ],
  issues: ["issues", "issue_comment"],
  checks: ["check_run", "check_suite"],
  statuses: ["status"],
  actions: ["workflow_run", "workflow_job"],
  metadata: ["label", "repository"],
};

/** Lists what GitHub would refuse in a manifest. */
function manifestFaults(manifest: Record<string, unknown>): string[] {
  const { url, redirect_url, hook_attributes, default_permissions = {}, default_events = [] } = manifest;
  const isUrl = (text: unknown): boolean => typeof text === "string" && /^https?:\/\/\S+$/.test(text);
  const hook = (hook_attributes ?? {}) as { url?: string; active?: boolean };
  const granted = Object.keys(default_permissions as object);
  const strangers = granted.filter((name) => known[name] === undefined);
  const allowed = granted.flatMap((name) => known[name] ?? []);
  return [
    ...(isUrl(url) ? [] : ["Url must be a URL"]),
    ...(isUrl(redirect_url) ? [] : ["Redirect url must be a URL"]),
    ...(isUrl(hook.url) ? [] : ["Hook url must be a URL"]),
    ...(hook.active !== false && /localhost|127\.0\.0\.1/.test(hook.url ?? "")
      ? ["Hook url is not reachable over the public Internet"]
      : []),
    ...strangers.map((name) => `Default permission records resource ${name} is not included in the list`),
    ...(default_events as string[])
      .filter((name) => !allowed.includes(name))
      .map((name) => `Default events unsupported: ${name}`),
  ];
}

const html = (status: number, body: string, headers: Record<string, string> = {}): AppAnswer => ({
  status,
  body: `<!doctype html><html lang="en"><head><title>GitHub</title></head><body>${body}</body></html>`,
  headers: { "content-type": "text/html; charset=utf-8", ...headers },
});
const moved = (location: string): AppAnswer => html(302, "", { location });

/** Answers with a page of GitHub; null for another path. */
export function appPage(state: GitHubState, request: { method: string; url: URL; body: string }): AppAnswer | null {
  const { method, url, body } = request;
  const fields = new URLSearchParams(body);
  const [, org] = /^(?:\/organizations\/([^/]+))?\/settings\/apps\/new$/.exec(url.pathname) ?? [];
  if (method === "POST" && url.pathname.endsWith("/settings/apps/new")) {
    const text = fields.get("manifest") ?? "{}";
    const faults = manifestFaults(JSON.parse(text) as Record<string, unknown>);
    if (org !== undefined && !state.organisations.has(org)) return html(404, "Not Found");
    if (faults.length > 0) return html(422, faults.join("<br>"));
    const id = state.nextId();
    const owner = org ?? person;
    state.manifests.set(id, { text, owner, state: url.searchParams.get("state") ?? "" });
    return html(
      200,
      `<form method="post" action="/manifests/${id}"><button>Create GitHub App for ${owner}</button></form>`,
    );
  }
  const [, manifest] = /^\/manifests\/(\d+)$/.exec(url.pathname) ?? [];
  if (method === "POST" && manifest !== undefined) return moved(makeApp(state, Number(manifest)));
  const [, slug] = /^\/apps\/([^/]+)\/installations\/new$/.exec(url.pathname) ?? [];
  const app = state.apps.find((one) => one.slug === slug);
  if (app === undefined) return slug === undefined ? null : html(404, "Not Found");
  if (method === "GET") return html(200, `<form method="post"><button>Install ${app.name}</button></form>`);
  app.installedFor.add(app.owner);
  return html(200, `<p>Okay, ${app.name} was installed.</p>`);
}

/** Creates the App of a manifest. Returns the address to which the browser goes with the code. */
function makeApp(state: GitHubState, id: number): string {
  const { text, owner, state: given } = state.manifests.get(id)!;
  const manifest = JSON.parse(text) as Record<string, string>;
  const hook = manifest.hook_attributes as unknown as { url: string; active?: boolean };
  const { privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    // The same kind of key as GitHub's.
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  const app: GitHubApp = {
    ...{ id: state.nextId(), name: manifest.name!, slug: manifest.name!.toLowerCase(), owner, privateKey },
    webhookSecret: randomBytes(20).toString("hex"),
    permissions: manifest.default_permissions as unknown as Record<string, string>,
    events: manifest.default_events as unknown as string[],
    hook: { url: hook.url, active: hook.active ?? true },
    code: randomBytes(20).toString("hex"),
    installedFor: new Set(),
  };
  state.apps.push(app);
  const back = new URL(manifest.redirect_url!);
  back.searchParams.set("code", app.code ?? "");
  back.searchParams.set("state", given);
  return back.href;
}

type Conversion = operations["apps/create-from-manifest"]["responses"][201]["content"]["application/json"];
type ShownApp = Pick<
  NonNullable<Schemas["integration"]>,
  "id" | "slug" | "name" | "html_url" | "permissions" | "events"
>;

const shown = ({ id, slug, name, permissions, events }: GitHubApp, base: string): ShownApp => ({
  ...{ id, slug, name, html_url: `${base}/apps/${slug}`, permissions, events: [...events] },
});

/** `POST /app-manifests/{code}/conversions`, which needs no credential. */
export function convertManifest(state: GitHubState, code: string, base: string): AppAnswer {
  const app = state.apps.find((one) => one.code === code);
  if (app === undefined) return { status: 404, body: { message: "Not Found" } };
  app.code = null;
  const body: ShownApp & Pick<Conversion, "client_id" | "client_secret" | "webhook_secret" | "pem"> = {
    ...shown(app, base),
    ...{ client_id: `Iv1.${app.id}`, client_secret: randomBytes(20).toString("hex") },
    ...{ webhook_secret: app.hook.active ? app.webhookSecret : null, pem: app.privateKey },
  };
  return { status: 201, body };
}

/** The App that a caller is; null if it was not created from a manifest. */
const appOf = (state: GitHubState, { appId }: User): GitHubApp | null =>
  state.apps.find(({ id }) => id === appId) ?? null;

/** `GET /app`. */
export function showApp(state: GitHubState, user: User, base: string): AppAnswer {
  const app = appOf(state, user);
  const permissions = { contents: "write", pull_requests: "write", checks: "write" };
  const any: Omit<ShownApp, "id" | "events"> = {
    ...{ slug: "wavesmith-test", name: "wavesmith-test", html_url: `${base}/apps/wavesmith-test`, permissions },
  };
  return { status: 200, body: app === null ? any : shown(app, base) };
}

/** The id of an App's only installation. */
const installationId = (app: GitHubApp | null): number => (app === null ? 77 : app.id * 10);

/** `GET /app/installations`. */
export function listInstallations(state: GitHubState, user: User): AppAnswer {
  const app = appOf(state, user);
  const accounts = app === null ? ["octo"] : [...app.installedFor];
  const body: { id: number; account: Pick<Schemas["simple-user"], "login" | "id"> }[] = accounts.map(
    (login, index) => ({
      ...{ id: installationId(app), account: { login, id: index + 1 } },
    }),
  );
  return { status: 200, body };
}

/** `GET /repos/{owner}/{repo}/installation`, and the same for a user. */
export function findInstallation(state: GitHubState, user: User, owner: string): AppAnswer {
  const app = appOf(state, user);
  const isThere = app === null || app.installedFor.has(owner);
  return isThere ? { status: 200, body: { id: installationId(app) } } : { status: 404, body: { message: "Not Found" } };
}

/** `POST /app/installations/{id}/access_tokens`; the token works for as long as the state says. */
export function mintToken(state: GitHubState, user: User): AppAnswer {
  const slug = appOf(state, user)?.slug ?? "wavesmith-test";
  const token = `ghs_installation${state.nextId()}ABCDEFGHIJ`;
  const expiresAt = new Date(Date.now() + state.installationTokenMs);
  state.users.set(token, { login: `${slug}[bot]`, kind: "installation", scopes: [], mayPush: true, expiresAt });
  const body: Pick<Schemas["installation-token"], "token" | "expires_at" | "permissions" | "repository_selection"> = {
    ...{ token, expires_at: expiresAt.toISOString(), permissions: {}, repository_selection: "all" },
  };
  return { status: 201, body };
}

/** The App that made a JSON web token; null if its signature is wrong or too old. */
export function appCaller(state: GitHubState, token: string): User | null {
  const [head = "", body = "", signature = ""] = token.split(".");
  const { iss, exp } = JSON.parse(Buffer.from(body, "base64url").toString()) as { iss: number | string; exp: number };
  const app = state.apps.find(({ id }) => String(id) === String(iss));
  const caller: User = { login: "wavesmith-test", kind: "app", scopes: [], mayPush: false };
  if (app === undefined) return caller;
  const key = createPublicKey(app.privateKey);
  const isSigned = verify("sha256", Buffer.from(`${head}.${body}`), key, Buffer.from(signature, "base64url"));
  return isSigned && exp * 1_000 > Date.now() ? { ...caller, login: app.slug, appId: app.id } : null;
}
