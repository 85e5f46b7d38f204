import { basename } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { builtin } from "../support/agent-builds.ts";
import type { BuildFixture } from "../support/build-fixture.ts";
import { type OpenDashboard, openDashboard, seriousFaults } from "../support/dashboard.ts";
import { type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";
import { requires } from "../support/require.ts";

const patienceMs = 40_000;
const white = "rgb(246, 247, 249)";
/** Two agents that call a model, each twice; the second one's work fails the gate once. */
const painted = {
  agents: { backend: builtin, frontend: builtin, fixer: { runtime: "command", command: "echo blue > page.txt" } },
  network: "none",
  tasks: [
    { id: "door", agent: "backend", instructions: "Write door.txt." },
    { id: "page", agent: "frontend", instructions: "Write page.txt.", dependsOn: ["door"] },
  ],
  gates: { testing: false, critic: false, integration: { command: "! grep -s red page.txt" }, maxFixRounds: 1 },
};

describe.runIf(requires("chromium"))("the dashboard on a phone, in its light theme", { timeout: 90_000 }, () => {
  let providers: FakeProviders;
  let dashboard: OpenDashboard;
  let fixture: BuildFixture;
  let page: Page;
  let origin: string;
  /** The build of `painted`. */
  let build: string;

  beforeAll(async () => {
    providers = await startFakeProviders(({ number }) => {
      const path = number < 3 ? "door.txt" : "page.txt";
      const write = { name: "write_file", input: { path, content: "red" } };
      return { ...(number % 2 === 1 ? { tools: [write] } : { text: "done" }), inputTokens: 100, outputTokens: 20 };
    });
    const env = { ANTHROPIC_API_KEY: "real-key", ANTHROPIC_BASE_URL: providers.url };
    dashboard = await openDashboard({ patienceMs, env });
    ({ fixture, page, origin } = dashboard);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.emulateMedia({ colorScheme: "light" });
    const { id, reason } = await fixture.build(painted);
    expect(reason).toBeNull();
    build = id;
  }, 180_000);
  afterAll(async () => {
    await dashboard?.close();
    await providers?.close();
    expect(dashboard.faults).toEqual([]);
  });

  const go = async (path: string): Promise<void> => {
    await page.goto(`${origin}${path}`);
    await page.locator("h1").waitFor();
  };
  const region = (name: string) => page.getByRole("region", { name });
  const copied = () => page.evaluate("navigator.clipboard.readText()");
  /** Checks that the page as it is now fits a phone, is light, and has no serious fault. */
  async function isSound(): Promise<void> {
    const excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    const background = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor");
    expect({ excess, background, faults: await seriousFaults(page) }).toEqual({
      excess: 0,
      background: white,
      faults: [],
    });
  }

  it("keeps the theme that its reader chose against the system's", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    await go("/settings");
    expect(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")).not.toBe(white);
    await page.getByRole("button", { name: "Use the light theme" }).click();
    await page.getByRole("button", { name: "Use the dark theme" }).waitFor();
    await isSound();
    await page.reload();
    await page.getByRole("button", { name: "Use the dark theme" }).waitFor();
    await isSound();
  });

  it("names the part of a build in its heading, and cuts the project's long name instead", async () => {
    const cut = (of: string) => page.evaluate(`(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(${of})`);
    for (const part of ["Changes", "Request", "Plan"]) {
      await go(`/builds/${build}/${part.toLowerCase()}`);
      await page.locator("h1").getByText(part).waitFor();
      // The project's name comes with the build, after the heading's own word.
      await expect.poll(() => cut("document.querySelector('h1 a')"), { timeout: patienceMs }).toBe(true);
      expect(await cut("document.querySelector('h1')")).toBe(false);
    }
  });

  it("lists every run of a gate over the waves, and opens another from there", async () => {
    await go(`/builds/${build}`);
    await page.locator(".gate-chip").filter({ hasText: "integration" }).first().click();
    const panel = page.getByRole("complementary", { name: "integration of wave 1" });
    const runs = page
      .getByRole("heading", { name: "Every integration run of this build" })
      .locator("..")
      .getByRole("link");
    await runs.first().waitFor();
    const lines = (await runs.allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
    expect(lines).toEqual(["wave 1 passed", "wave 2 1 finding failed", "wave 2, round 2 passed"]);
    expect(await runs.nth(0).getAttribute("aria-current")).toBe("page");
    await panel.getByText("exit 0").waitFor();
    await isSound();
    await runs.nth(1).click();
    await page.getByRole("complementary", { name: "integration of wave 2" }).getByText("exit 1").waitFor();
    expect(await runs.nth(1).getAttribute("aria-current")).toBe("page");
  });

  it("sums what models cost, by role and by model", async () => {
    await go(`/projects/${fixture.projectId}`);
    const spending = region("Spending");
    await spending.getByText("and 480 tokens in the last 30 days").waitFor();
    // 400 tokens in at 3 dollars a million, 80 out at 15.
    await spending.getByText("$0.0024", { exact: true }).waitFor();
    const legend = async () =>
      (await spending.getByRole("listitem").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
    expect((await legend()).sort()).toEqual(["backend $0.0012, 240", "frontend $0.0012, 240"]);
    await spending.getByRole("img", { name: "Tokens by day; 480 on the busiest day" }).waitFor();
    await spending.getByRole("button", { name: "By model" }).click();
    await expect.poll(legend).toEqual(["claude-sonnet-4-5 $0.0024, 480"]);
    await isSound();
  });

  it("stops a project's sandbox, and starts it again", async () => {
    const { ports, config } = fixture.app;
    const isThere = async () => (await ports.driver(config.sandboxDriver).find(fixture.projectId as never)) !== null;
    await go(`/projects/${fixture.projectId}`);
    const sandbox = region("Sandbox");
    await sandbox.getByText("running").waitFor();
    await expect.poll(isThere, { timeout: patienceMs }).toBe(true);
    await sandbox.getByRole("button", { name: "Stop" }).click();
    await sandbox.getByText("stopped", { exact: true }).waitFor();
    await sandbox.getByText("stopped on request").waitFor();
    await expect.poll(isThere, { timeout: patienceMs }).toBe(false);
    await isSound();
    await sandbox.getByRole("button", { name: "Start" }).click();
    await sandbox.getByText("running").waitFor();
    await expect.poll(isThere, { timeout: patienceMs }).toBe(true);
  });

  it("makes a key that is shown once and copied, works, and is revoked", async () => {
    const asked = async (method: string, path: string, key: string): Promise<number> =>
      (await fetch(`${origin}/api/v1${path}`, { method, headers: { authorization: `Bearer ${key}` } })).status;
    await go("/settings");
    await page.getByRole("button", { name: "Create a key…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("screen");
    await dialog.getByRole("radio", { name: /^read/ }).check();
    await isSound();
    await dialog.getByRole("button", { name: "Create" }).click();
    const key = await dialog.locator("code").innerText();
    await dialog.getByRole("button", { name: "Copy" }).click();
    await dialog.getByText("Copied").waitFor();
    expect(await copied()).toBe(key);
    await isSound();
    expect([await asked("GET", "/builds", key), await asked("POST", `/builds/${build}/cancel`, key)]).toEqual([
      200, 403,
    ]);
    await dialog.getByRole("button", { name: "Close" }).click();
    const line = region("Keys").getByRole("listitem").filter({ hasText: "screen" });
    await line.getByText("read", { exact: true }).waitFor();
    await expect.poll(() => page.content()).not.toContain(key);
    await line.getByRole("button", { name: "Revoke screen" }).click();
    await line.getByText("revoked").waitFor();
    expect(await asked("GET", "/builds", key)).toBe(401);
  });

  it("copies commands, also where the browser has no clipboard for scripts", async () => {
    const repository = fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
    const without = await page.context().newPage();
    try {
      // As on plain HTTP to another machine.
      await without.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
      for (const [tab, path, button, command] of [
        [page, `/builds/${build}`, "Copy git fetch", /^git fetch (\S+) main$/] as const,
        [without, `/builds/${build}?task=door&part=attempts`, "Copy git clone", /^git clone .* (\S+)$/] as const,
      ]) {
        await tab.goto(`${origin}${path}`);
        await tab.bringToFront();
        await tab.getByRole("button", { name: button }).click();
        await tab.getByRole("button", { name: "Copied" }).waitFor();
        await page.bringToFront();
        expect(command.exec(String(await copied()))?.[1]).toBe(repository);
      }
    } finally {
      await without.close();
    }
  });

  it("offers examples that have no faults, and runs one as it is", async () => {
    await go(`/start?project=${encodeURIComponent(basename(fixture.app.config.dataDir))}`);
    const start = page.getByRole("button", { name: "Start this build" });
    for (const [name, waves] of [
      ["With your approval", "2 waves, 2 tasks"] as const,
      ["With an agent", "2 waves, 2 tasks"] as const,
      ["Three waves", "3 waves, 4 tasks"] as const,
    ]) {
      await page.getByRole("button", { name, exact: true }).click();
      await page.getByRole("heading", { name: waves }).waitFor();
      await expect.poll(() => start.isEnabled(), { timeout: patienceMs }).toBe(true);
      await isSound();
    }
    await start.click();
    await page.getByText("4 of 4 tasks completed").waitFor();
    const id = /bld_\w+/.exec(page.url())![0];
    expect(await fixture.until(id)).toMatchObject({ status: "completed", reason: null });
    expect(await fixture.git("show", "main:NOTES.md")).toBe("Run the tests with node --test.\n");
    await isSound();
  });
});
