import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { builtDashboard, dashboardKey, openBrowser, serveDashboard, signedIn } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const patienceMs = 25_000;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Escape sequences, a script and markup, as an agent may print them. */
const hostile = "\\033[31mred\\033[0m <img src=x onerror=document.title=1><script>document.title=1</script>";
const failing = `name: shop
approval: wave
tasks:
  - id: cart
    run: |
      printf '${hostile}\\n'
      mkdir -p src test
      echo 'export const total = () => 6;' > src/cart.js
      printf 'import test from "node:test";\\nimport assert from "node:assert";\\n' > test/cart.test.js
      echo 'import { total } from "../src/cart.js";' >> test/cart.test.js
      echo 'test("sums prices", () => assert.equal(total(), 5));' >> test/cart.test.js
gates:
  testing: { command: node --test --test-reporter=tap test/*.test.js, minTests: 1 }
  maxFixRounds: 0
`;
const asking = `name: letter
approval: wave
tasks:
  - { id: draft, run: "echo 'A draft.' > draft.md", writes: [draft.md] }
  - { id: final, dependsOn: [draft], run: "cp draft.md final.md", writes: [final.md] }
`;

describe.runIf(requires("chromium"))("the dashboard", () => {
  let folder: string;
  let fixture: BuildFixture;
  let server: RunningServer;
  let browser: Browser;
  let page: Page;
  const faults: string[] = [];

  beforeAll(async () => {
    [folder, fixture, browser] = await Promise.all([builtDashboard(), createBuildFixture(), openBrowser()]);
    server = await serveDashboard(fixture, folder);
    page = await signedIn(browser, server.origin, faults);
    page.setDefaultTimeout(patienceMs);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.stop();
    await fixture?.close();
  });

  const go = (path: string) => page.goto(`${server.origin}${path}`);
  const api = (path: string, init: RequestInit = {}) =>
    fetch(`${server.origin}/api/v1${path}`, { ...init, headers: { authorization: `Bearer ${dashboardKey}` } });
  /** Types a plan into the editor of the page "Start". */
  async function startPlan(plan: string): Promise<string> {
    // The one project that the fixture drives.
    await go(`/start?project=${encodeURIComponent(basename(fixture.app.config.dataDir))}`);
    await page.getByLabel("The plan, in YAML").fill(plan);
    await page.getByRole("button", { name: "Start this build" }).click();
    await page.waitForURL(/\/builds\/bld_/);
    return /bld_\w+/.exec(page.url())![0];
  }
  async function seriousFaults(): Promise<string[]> {
    await page.evaluate(axe);
    return page.evaluate(async () => {
      const { axe: checker } = globalThis as unknown as {
        axe: {
          run(context: object): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
        };
      };
      const { violations } = await checker.run({ exclude: ["diffs-container"] }); // colours of code
      return violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
    });
  }

  it("loads at most 300 KB of compressed script before the first view, and nothing from elsewhere", () => {
    const html = readFileSync(join(folder, "index.html"), "utf8");
    expect(html).not.toMatch(/(?:src|href)="(?:https?:)?\/\/|<script(?![^>]*\bsrc=)/);
    const scripts = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map((match) => match[1]!);
    const sizes = scripts.map((path) => gzipSync(readFileSync(join(folder, path))).length);
    expect(sizes.length).toBeGreaterThan(0);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300 * 1024);
  });

  it("shows nothing without a key, and lets scripts run from its own files alone", async () => {
    const context = await browser.newContext();
    try {
      const stranger = await context.newPage();
      const answer = await stranger.goto(`${server.origin}/builds`);
      expect(answer?.headers()["content-security-policy"]).toContain("script-src 'self';");
      await stranger.getByLabel("Key").fill("wrong");
      await stranger.getByRole("button", { name: "Sign in" }).click();
      await stranger.getByText("the key is wrong").waitFor();
    } finally {
      await context.close();
    }
  });

  it("signs in by a link, for every tab of this address until one signs out, and leaves no token in it", async () => {
    const asked = await fetch(`${server.origin}/api/v1/session/link`, {
      ...{ method: "POST", body: JSON.stringify({ key: dashboardKey }) },
    });
    const { path } = (await asked.json()) as { path: string };
    const context = await browser.newContext();
    try {
      const [first, second] = [await context.newPage(), await context.newPage()];
      const frame = (tab: Page) => tab.getByRole("navigation", { name: "Main" });
      await first.goto(`${server.origin}${path}&to=/builds`);
      await frame(first).waitFor();
      expect(first.url()).toBe(`${server.origin}/builds`);
      await first.reload();
      await second.goto(server.origin);
      await Promise.all([frame(first).waitFor(), frame(second).waitFor()]);
      await second.getByRole("button", { name: "Sign out" }).click();
      // The other tab finds out by itself.
      await Promise.all([first.getByLabel("Key").waitFor(), second.getByLabel("Key").waitFor()]);
    } finally {
      await context.close();
    }
  });

  it("shows a plan's faults at their lines while it is typed, and its waves once it is mended", async () => {
    await go("/start");
    const editor = page.getByLabel("The plan, in YAML");
    await editor.fill("name: x\ntasks:\n  - { id: a, run: 'true' }\n  - { id: b, dependsOn: [c], run: 'true' }\n");
    await page.getByRole("button", { name: /line 4/ }).waitFor();
    expect(await page.getByRole("button", { name: "Start this build" }).isDisabled()).toBe(true);
    await editor.fill("name: x\ntasks:\n  - { id: a, run: 'true' }\n  - { id: b, dependsOn: [a], run: 'true' }\n");
    await page.getByText("2 waves, 2 tasks").waitFor();
    expect(await page.getByRole("button", { name: "Start this build" }).isEnabled()).toBe(true);
  });

  it("follows a build to a failed gate, and shows its evidence and what an agent printed as text", async () => {
    const id = await startPlan(failing);
    await page.getByRole("link", { name: "see why testing failed" }).click();
    const gate = page.getByRole("complementary", { name: "testing of wave 1" });
    await gate.getByText("exit 1").waitFor();
    expect(await gate.innerText()).toMatch(/sums prices: 6 == 5[\s\S]*0\s+passed\s+1\s+failed/);

    await go(`/builds/${id}?task=cart`);
    const log = page.getByRole("log");
    await log.getByText("red <img src=x onerror=document.title=1><script>").waitFor();
    expect(await page.title()).toContain("Wavesmith");
    expect(await seriousFaults()).toEqual([]);

    await go(`/builds/${id}/changes?wave=1`);
    await page.getByText("export const total = () => 6;").waitFor();
    await page.getByText("sums prices: 6 == 5").waitFor();
    expect(await seriousFaults()).toEqual([]);
  });

  it("says what needs a person, and settles it with a click and with a key", async () => {
    const id = await startPlan(asking);
    await go("/");
    const item = page.getByRole("listitem").filter({ hasText: "Wave 1 passed its gates" });
    await item.getByRole("button", { name: "Approve" }).click();
    await fixture.until(id, async ({ status }) => {
      const waves = await fixture.app.ports.store.waves.list({ buildId: id });
      return status === "waiting" && waves.length === 2;
    });
    await go(`/builds/${id}`);
    await page.getByText("Is wave 2 good?").waitFor();
    await page.keyboard.press("a");
    await page.getByText("2 of 2 tasks completed").waitFor();
    expect((await fixture.until(id, ({ status }) => status === "completed")).status).toBe("completed");
    await go("/");
    expect(await seriousFaults()).toEqual([]);
  });

  it("finds pages and builds by keyboard", async () => {
    await go("/");
    // Keys are heard once the page is drawn.
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox", { name: "Page, build, project or action" });
    await box.fill("start");
    await page.getByRole("option", { name: "Start a build" }).waitFor();
    expect(await seriousFaults()).toEqual([]);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Start a build" }).waitFor();
    expect(await box.count()).toBe(0);
  });

  it("fits a phone in both themes, and logs no errors", async () => {
    const id = await startPlan("name: phone\ntasks:\n  - { id: only, run: echo 1 > a.txt }\n");
    await fixture.until(id, ({ status }) => status === "completed");
    await page.setViewportSize({ width: 390, height: 844 });
    const places = ["/", "/builds", `/builds/${id}`, `/builds/${id}?view=timeline`, `/builds/${id}?view=board`];
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const path of [...places, `/builds/${id}?task=only`, `/builds/${id}/changes`, "/start", "/settings"]) {
        await go(path);
        await page.locator("h1").waitFor();
        await expect.poll(() => page.getByText(/^Loading /).count(), { timeout: patienceMs }).toBe(0);
        const excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect({ path, excess }).toEqual({ path, excess: 0 });
        expect({ path, faults: await seriousFaults() }).toEqual({ path, faults: [] });
      }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: null });
    expect(faults).toEqual([]);
  });

  it("says that the server is gone, and goes on by itself when it is back", async () => {
    await go("/");
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    const port = Number(new URL(server.origin).port);
    await server.stop(0);
    await page.getByText("The server does not answer").waitFor();
    server = await serveDashboard(fixture, folder, port);
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
    expect((await api("/builds")).status).toBe(200);
  });
});
