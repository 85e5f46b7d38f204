import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { builtDashboard, openBrowser, seriousFaults } from "../support/dashboard.ts";
import { type RunningProvider, startOpenIdProvider } from "../support/openid-provider.ts";
import { requires } from "../support/require.ts";

describe.runIf(requires("chromium"))("signing in to the dashboard", { timeout: 120_000 }, () => {
  let provider: RunningProvider;
  let fixture: BuildFixture;
  let server: RunningServer;
  let browser: Browser;

  beforeAll(async () => {
    provider = await startOpenIdProvider();
    [fixture, browser] = await Promise.all([createBuildFixture(), openBrowser()]);
    server = await startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin: null },
      ...{ key: "s3cret-of-the-server", host: "127.0.0.1", port: 0, dashboard: await builtDashboard() },
      openId: { ...provider.settings, rights: [{ who: "@example.com", scope: "build", tenant: null }] },
      inform: () => undefined,
      warn: () => undefined,
    });
    provider.sendBackTo(`${server.origin}/sign-in/oidc/callback`);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.stop();
    await fixture?.close();
    await provider?.close();
  });

  it("leads to the provider and back to the page that was asked for", async () => {
    const page = await browser.newPage();
    page.setDefaultTimeout(25_000);
    const name = `Sign in with ${new URL(provider.settings.issuer).host}`;
    await page.goto(`${server.origin}/settings`);
    await page.getByRole("link", { name }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    provider.next = { email: "eve@elsewhere.org" };
    await page.getByRole("link", { name }).click();
    await page.getByText("eve@elsewhere.org may not use this server").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("link", { name: "Back to signing in" }).click();

    await page.context().clearCookies({ domain: "127.0.0.1" });
    provider.next = { email: "ada@example.com" };
    await page.goto(`${server.origin}/settings`);
    await page.getByRole("link", { name }).click();
    await page.waitForURL(`${server.origin}/settings`);
    await page.getByRole("navigation", { name: "Main" }).waitFor();
    await page.getByText("ada@example.com").first().waitFor();
  });
});
