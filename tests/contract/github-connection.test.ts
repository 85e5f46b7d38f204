import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { checkGitHub } from "../../src/cli/commands/doctor.ts";
import { loadConfig } from "../../src/config.ts";
import { createCredentialReader, writeCredential } from "../../src/forge/credential-file.ts";
import { createClients } from "../../src/forge/github/client.ts";
import { createConnection } from "../../src/forge/github/connection.ts";
import type { GitHubConnection } from "../../src/forge/port.ts";
import { createCommandPlace } from "../support/command.ts";
import { builtDashboard } from "../support/dashboard.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

// A person creates a GitHub App from our manifest, here without a browser.

const origin = "http://127.0.0.1:4400";
/**
 * Presses the buttons at GitHub, as a person's browser does. Returns the address to which GitHub
 * sends it back.
 */
async function makeApp({ action, manifest }: { action: string; manifest: string }): Promise<URL> {
  const asked = await fetch(action, { method: "POST", body: new URLSearchParams({ manifest }) });
  const text = await asked.text();
  const form = /action="(\/manifests\/\d+)"/.exec(text)?.[1];
  if (form === undefined) throw new Error(text);
  const made = await fetch(new URL(form, action), { method: "POST", redirect: "manual" });
  return new URL(made.headers.get("location")!);
}

let server: GitHubServer;
beforeAll(async () => {
  server = await createGitHubServer();
});
afterAll(() => server.close());

describe("signing in to GitHub as a new App", () => {
  let dataDir: string;
  let laterMs: number;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-connection-"));
    laterMs = 0;
  });
  afterEach(() => rmSync(dataDir, { recursive: true }));

  const connect = (publicUrl: string | null = null, api = ""): GitHubConnection => {
    const settings = { apiUrl: `${server.url}${api}`, webUrl: server.url, credential: createCredentialReader(dataDir) };
    const now = () => new Date(Date.now() + laterMs);
    return createConnection({ ...settings, clients: createClients(settings), dataDir, isFixed: false, publicUrl, now });
  };
  /** Goes on until GitHub has answered. */
  async function answered(connection: GitHubConnection, organization: string | null = null) {
    const { state } = await connection.beginApp({ origin, organization });
    const back = await makeApp(await connection.appForm(state));
    expect(`${back.origin}${back.pathname}`).toBe(`${origin}/connect/github/done`);
    expect(back.searchParams.get("state")).toBe(state);
    return { state, code: back.searchParams.get("code")! };
  }
  const refused = { code: "usage", message: expect.stringContaining("no longer, part of signing in") };

  it("stores its key for the owner alone, and says what it may do and where it is installed", async () => {
    const connection = connect();
    expect(await connection.read()).toMatchObject({ source: null, identity: null, problem: null });
    const { name, installUrl } = await connection.finishApp(await answered(connection));
    const file = join(dataDir, "github.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir)).toEqual(["github.json"]);
    // Without an address of ours, GitHub sends nothing.
    const app = server.state.apps.at(-1)!;
    expect(app.hook.active).toBe(false);
    expect(connection.webhookSecrets()).toEqual([]);
    const { identity } = await connection.read();
    expect(identity).toMatchObject({ kind: "app", login: name, installed: { accounts: [], url: installUrl } });
    expect(identity!.rights).toEqual(expect.arrayContaining(["contents: write", "checks: write", "issues: write"]));
    await fetch(installUrl, { method: "POST" });
    expect((await connect().read()).identity!.installed!.accounts).toEqual(["octo"]);
  });

  it("belongs to an organisation, and has its webhook at the address where others reach us", async () => {
    // This one is on GitHub Enterprise, whose API has its own address.
    const connection = connect("https://wavesmith.example.org", "/api/v3");
    await connection.finishApp(await answered(connection, "octo-org"));
    const { owner, hook, webhookSecret } = server.state.apps.at(-1)!;
    expect({ owner, hook }).toEqual({
      owner: "octo-org",
      hook: { url: "https://wavesmith.example.org/webhooks/github", active: true },
    });
    expect(connection.webhookSecrets()).toEqual([webhookSecret]);
    expect(await connection.read()).toMatchObject({ identity: { kind: "app" }, problem: null });
    expect(server.calls.at(-1)).toMatchObject({ path: "/app/installations", status: 200 });
  });

  it("accepts no forged state, no second code, no late answer and no code twice", async () => {
    const connection = connect();
    const own = await answered(connection);
    await expect(connection.appForm("forged")).rejects.toMatchObject(refused);
    await expect(connection.finishApp({ ...own, state: "forged" })).rejects.toMatchObject(refused);
    await expect(connection.finishApp({ ...own, code: "" })).rejects.toMatchObject(refused);
    await expect(connection.finishApp({ ...own, code: "../user" })).rejects.toMatchObject(refused);
    laterMs = 10 * 60_000;
    await expect(connection.finishApp(own)).rejects.toMatchObject(refused);
    laterMs = 0;
    const both = await Promise.allSettled([connection.finishApp(own), connection.finishApp(own)]);
    expect(both).toMatchObject([{ status: "fulfilled" }, { status: "rejected", reason: refused }]);
    const next = await answered(connection);
    // The state of the first one is no longer valid.
    await expect(connection.finishApp({ ...own, code: next.code })).rejects.toMatchObject(refused);
    const gone = await connection.finishApp({ ...next, code: own.code }).catch((error: unknown) => error);
    expect(gone).toMatchObject({ fault: "not-found", remedy: expect.stringContaining("or make a private key there") });
    expect(String(gone)).not.toContain(own.code);
    await expect(connection.finishApp(next)).rejects.toMatchObject(refused);
  });

  it("tries the same code again after GitHub was down, even in another process", async () => {
    const own = await answered(connect());
    const route = "POST /app-manifests/";
    const down = server.fault({ route, when: "before", answer: { status: 503, message: "Unicorn" } });
    const failure = await connect()
      .finishApp(own)
      .catch((error: unknown) => error);
    down.clear();
    expect(failure).toMatchObject({ fault: "network", remedy: expect.stringMatching(/^load this page again/) });
    expect(String(failure)).not.toContain(own.code);
    expect((await connect().read()).unfinished?.remedy).toContain(`${server.url}/settings/apps`);
    await connect().finishApp(own);
    expect(await connect().read()).toMatchObject({ source: "stored", unfinished: null });
  });

  it("says what to do when GitHub's answer with the key is lost", async () => {
    const own = await answered(connect());
    const lost = server.fault({ route: "POST /app-manifests/", when: "after" });
    await expect(connect().finishApp(own)).rejects.toMatchObject({ fault: "network" });
    lost.clear();
    await expect(connect().finishApp(own)).rejects.toMatchObject({
      fault: "not-found",
      remedy: expect.stringMatching(/delete it and begin again, or make a private key there/),
    });
    expect((await connect().read()).unfinished).not.toBeNull();
    // A person follows the advice.
    const { id, privateKey } = server.state.apps.at(-1)!;
    await connect().store({ kind: "app", appId: String(id), privateKey });
    expect(await connect().read()).toMatchObject({ source: "stored", unfinished: null });
  });

  it("uses what another process stores at once, and keeps masking what it used before", async () => {
    const settings = { apiUrl: server.url, webUrl: server.url, credential: createCredentialReader(dataDir) };
    const clients = createClients(settings);
    expect(() => clients.own()).toThrow("nobody has signed in");
    await writeCredential(dataDir, { kind: "token", token: "ghp_badBadBadBadBadBad" });
    await expect(clients.own().request("GET /user")).rejects.toMatchObject({ fault: "unauthorized" });
    await writeCredential(dataDir, { kind: "token", token: usualToken });
    expect((await clients.own().request("GET /user")).data.login).toBe("octo");
    expect(Object.values(clients.secrets()).sort()).toEqual(["ghp_badBadBadBadBadBad", usualToken].sort());
  });

  it("refuses to store what settings would override", async () => {
    const credential = { kind: "token", token: usualToken } as const;
    const settings = { apiUrl: server.url, webUrl: server.url, credential: () => credential };
    const connection = createConnection({
      ...{ ...settings, clients: createClients(settings), dataDir, isFixed: true, publicUrl: null },
      now: () => new Date(),
    });
    const conflict = { code: "conflict", remedy: expect.stringContaining("unset WAVESMITH_GITHUB_TOKEN") };
    await expect(connection.store(credential)).rejects.toMatchObject(conflict);
    await expect(connection.beginApp({ origin, organization: null })).rejects.toMatchObject(conflict);
    expect(await connection.read()).toMatchObject({ source: "settings", identity: { login: "octo" } });
  });
});

describe("`github connect`", { timeout: 120_000 }, () => {
  const open = () => createCommandPlace({ WAVESMITH_GITHUB_API: server.url, WAVESMITH_GITHUB_URL: server.url });
  const doctor = (data: string) =>
    checkGitHub(
      loadConfig({ WAVESMITH_DATA: data, WAVESMITH_GITHUB_API: server.url, WAVESMITH_GITHUB_URL: server.url }),
    );
  const linkIn = (text: string): string => /http:\/\/127\.0\.0\.1:\d+\/connect\/github\?state=\S+/.exec(text)![0];
  /** Reads the form on our page, as a browser does. */
  async function formAt(link: string): Promise<{ action: string; manifest: string }> {
    const text = await (await fetch(link)).text();
    const field = (name: string) =>
      new RegExp(`${name}="([^"]*)"`).exec(text)![1]!.replaceAll("&quot;", '"').replaceAll("&amp;", "&");
    return { action: field("action"), manifest: field('name="manifest" value') };
  }

  it("leads a browser through GitHub and back, and ends signed in", async () => {
    const place = open();
    try {
      const command = place.start("github", "connect", "--organization", "octo-org");
      await command.said("?state=");
      const link = linkIn(command.text());
      expect((await fetch(`${link}x`)).status).toBe(400);
      const answer = await fetch(await makeApp(await formAt(link)));
      expect(await answer.text()).toContain("Install it on GitHub");
      expect(answer.headers.get("cache-control")).toBe("no-store");
      expect(await command.ended).toBe(0);
      const { slug } = server.state.apps.at(-1)!;
      expect(command.text()).toContain(`signed in to GitHub as ${slug} (app)`);
      expect(command.text()).toContain(`install it for its repositories: ${server.url}/apps/${slug}/installations/new`);
      expect(command.text()).not.toContain("BEGIN RSA");
      // It may have created the data directory, inside a person's repository.
      expect(readFileSync(join(place.data, ".gitignore"), "utf8")).toBe("*\n");
      const [check] = await doctor(place.data);
      expect(check).toMatchObject({ ok: false, remedy: `install it: ${server.url}/apps/${slug}/installations/new` });
      expect(check!.detail).toMatch(new RegExp(`^app of ${slug}: .*checks: write.*, installed for nobody$`));
    } finally {
      place.close();
    }
  });

  it("says what is left on GitHub if it is killed before the key is stored", async () => {
    const place = open();
    try {
      const command = place.start("github", "connect");
      await command.said("?state=");
      const back = await makeApp(await formAt(linkIn(command.text())));
      const act = () => void command.child.kill("SIGKILL");
      const death = server.fault({ route: "POST /app-manifests/", when: "after", act });
      await expect(fetch(back)).rejects.toThrow();
      await command.ended;
      death.clear();
      expect(readFileSync(join(place.data, "github-app.json"), "utf8")).not.toContain(back.searchParams.get("code"));
      expect(await doctor(place.data)).toMatchObject([
        {
          ...{ ok: false, detail: "an App was being created on GitHub, and its key may not have been stored" },
          remedy: expect.stringContaining("github setup --app ID --key FILE"),
        },
      ]);
    } finally {
      place.close();
    }
  });

  it("says the same to a browser if `serve` is killed, and continues with a key made by hand", async () => {
    await builtDashboard(); // Otherwise the server creates it first.
    const place = open();
    try {
      const serve = async (port: string) => {
        const command = place.start("serve", "--port", port, "--json");
        await command.said("serve.started");
        return { command, url: /"url":"([^"]+)"/.exec(command.text())![1]! };
      };
      const first = await serve("0");
      const key = readFileSync(join(place.data, "serve-key"), "utf8").trim();
      const asked = { headers: { authorization: `Bearer ${key}`, "content-type": "application/json" } };
      const begun = await fetch(`${first.url}/api/v1/github/app`, { method: "POST", ...asked, body: "{}" });
      const { page } = (await begun.json()) as { page: string };
      const back = await makeApp(await formAt(page));
      const act = () => void first.command.child.kill("SIGKILL");
      const death = server.fault({ route: "POST /app-manifests/", when: "after", act });
      await expect(fetch(back)).rejects.toThrow();
      await first.command.ended;
      death.clear();
      const second = await serve(new URL(first.url).port);
      // The person loads the page again.
      const answer = await fetch(back);
      expect(answer.status).toBe(502);
      const text = await answer.text();
      expect(text).toContain("GitHub does not know this code, or has used it");
      expect(text).toContain("delete it and begin again, or make a private key there");
      const signIn = async () => (await (await fetch(`${second.url}/api/v1/github`, asked)).json()) as object;
      expect(await signIn()).toMatchObject({
        kind: "none",
        unfinished: { remedy: expect.stringContaining("--key FILE") },
      });
      const app = server.state.apps.at(-1)!;
      app.installedFor.add("octo");
      const file = join(place.folder, "app.pem");
      writeFileSync(file, app.privateKey);
      const setup = await place.run("github", "setup", "--app", String(app.id), "--key", file);
      expect(setup).toMatchObject({ code: 0, text: expect.stringContaining(`signed in to GitHub as ${app.slug}`) });
      expect(await signIn()).toMatchObject({ kind: "app", login: app.slug, unfinished: null });
      second.command.child.kill("SIGTERM");
      expect(await second.command.ended).toBe(0);
    } finally {
      place.close();
    }
  });
});
