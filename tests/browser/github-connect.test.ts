import { createHmac } from "node:crypto";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BuildFixture } from "../support/build-fixture.ts";
import { dashboardKey, type OpenDashboard, openDashboard } from "../support/dashboard.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";
import { requires } from "../support/require.ts";

const patienceMs = 25_000;
const publicUrl = "https://wavesmith.example.org";

describe.runIf(requires("chromium"))("connecting GitHub in the dashboard", { timeout: 120_000 }, () => {
  let github: GitHubServer;
  let dashboard: OpenDashboard;
  let fixture: BuildFixture;
  let page: Page;
  let origin: string;

  beforeAll(async () => {
    github = await createGitHubServer();
    const env = {
      ...{ WAVESMITH_GITHUB_API: github.url, WAVESMITH_GITHUB_URL: github.url, GIT_CONFIG_GLOBAL: "/dev/null" },
      // The address at which others reach this server, so that the App has a webhook.
      INNGEST_SERVE_ORIGIN: publicUrl,
    };
    dashboard = await openDashboard({ patienceMs, env });
    ({ fixture, page, origin } = dashboard);
  }, 120_000);
  afterAll(async () => {
    await dashboard?.close();
    await github?.close();
  });

  const settings = () => page.goto(`${origin}/settings`);
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: true });
  const signIn = async (): Promise<unknown> => {
    const headers = { authorization: `Bearer ${dashboardKey}` };
    return (await fetch(`${origin}/api/v1/github`, { headers })).json();
  };
  /** From the settings to GitHub's page. */
  async function goToGitHub(): Promise<void> {
    await settings();
    await button(/^Connect (GitHub|again)…$/).click();
    await button("Create an App").click();
    await page.getByRole("heading", { name: "Make a GitHub App" }).waitFor();
    await button("Go on to GitHub").click();
  }

  it("creates an App from our manifest, and delivers with it without a restart", async () => {
    await settings();
    await page.getByText(`Not connected: plans cannot deliver to ${new URL(github.url).host}.`).waitFor();
    await goToGitHub();
    await button("Create GitHub App for octo").click();
    await page.getByRole("heading", { name: /^Connected as wavesmith-/ }).waitFor();
    const { name, slug, webhookSecret } = github.state.apps[0]!;
    await page.getByRole("link", { name: "Install it on GitHub" }).click();
    await button(`Install ${name}`).click();
    await page.getByText(`Okay, ${name} was installed.`).waitFor();

    await settings();
    await page.getByText(`${slug} (App)`).waitFor();
    await page.getByText(/checks: write/).waitFor();
    expect(await signIn()).toMatchObject({ source: "stored", kind: "app", accounts: ["octo"], unfinished: null });

    // The server that is already running uses its key,
    await github.repository("octo/app");
    const build = await fixture.build({
      tasks: [{ id: "one", run: "echo 1 > one.txt" }],
      gates: { testing: { command: "echo 1..1; echo ok 1 - works" } },
      deliver: { forge: "github", repo: "octo/app" },
    });
    const { pulls, checkRuns } = github.state.find("octo/app")!;
    await expect.poll(() => checkRuns.map((run) => run.name), { timeout: 60_000 }).toContain("wavesmith/testing");
    expect(build.status).toBe("completed");
    expect(pulls).toHaveLength(1);
    // and its webhooks' secret.
    const body = JSON.stringify({ zen: "Keep it logically awesome." });
    const send = (secret: string) =>
      fetch(`${origin}/webhooks/github`, {
        method: "POST",
        body,
        headers: {
          ...{ "content-type": "application/json", "x-github-event": "ping", "x-github-delivery": "1" },
          "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
        },
      });
    expect((await send("another")).status).toBe(401);
    expect((await send(webhookSecret)).status).toBe(202);
    // The key is in its file and nowhere else.
    expect(await page.content()).not.toContain("PRIVATE KEY");
  });

  it("refuses an answer with a forged state, and a page that was already used", async () => {
    const [code] = ["0123456789abcdef0123"];
    await page.goto(`${origin}/connect/github/done?code=${code}&state=forged`);
    await page.getByText("no longer, part of signing in to GitHub").waitFor();
    await goToGitHub();
    const back = page.waitForRequest(/\/connect\/github\/done\?/);
    await button("Create GitHub App for octo").click();
    await page.getByRole("heading", { name: /^Connected as/ }).waitFor();
    const before = await signIn();
    await page.goto((await back).url());
    await page.getByText("no longer, part of signing in to GitHub").waitFor();
    expect(await signIn()).toEqual(before);
  });

  it("says that GitHub is down, and continues when the page is reloaded", async () => {
    await goToGitHub();
    const answer = { status: 503, message: "Unicorn" };
    const down = github.fault({ route: "POST /app-manifests/", when: "before", answer });
    await button("Create GitHub App for octo").click();
    await page.getByText(/GitHub answered 503/).waitFor();
    await page.getByText(/load this page again/i).waitFor();
    down.clear();
    await page.reload();
    await page.getByRole("heading", { name: /^Connected as/ }).waitFor();
  });

  it("says what an unfinished exchange may have left on GitHub", async () => {
    await goToGitHub();
    const lost = github.fault({ route: "POST /app-manifests/", when: "after" });
    await button("Create GitHub App for octo").click();
    await page.getByText(/GitHub cannot be reached/).waitFor();
    lost.clear();
    await settings();
    await page.getByText(/its key may not have reached this server/).waitFor();
    await page.getByText(/delete it and begin again, or make a private key there/).waitFor();
  });

  it("takes a token that GitHub accepts, and no other", async () => {
    await settings();
    await button("Connect again…").click();
    await page.getByLabel("Token").fill("ghp_aTokenThatWasRevoked0123");
    await button("Use this token").click();
    await page.getByText("GitHub answered 401 to GET /user: Bad credentials").waitFor();
    await page.getByLabel("Token").fill(usualToken);
    await button("Use this token").click();
    await page.getByText("octo (token)").waitFor();
    await page.getByText("repo, workflow").waitFor();
    expect(await signIn()).toMatchObject({ kind: "token", login: "octo", unfinished: null });
    expect(dashboard.faults).toEqual([]);
  });
});
