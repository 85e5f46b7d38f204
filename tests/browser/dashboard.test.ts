import { readFileSync } from "node:fs";
import { request } from "node:http";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BuildFixture } from "../support/build-fixture.ts";
import { dashboardKey, type OpenDashboard, openDashboard, seriousFaults } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const patienceMs = 25_000;
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
const mended = `name: paint
approval: wave
agents:
  fixer: { runtime: command, command: "sed -i s/red/blue/ colour.txt" }
tasks:
  - { id: colour, run: "printf 'one\\nthe colour is red\\n' > colour.txt" }
gates: { critic: false }
`;

describe.runIf(requires("chromium"))("the dashboard", () => {
  let dashboard: OpenDashboard;
  let fixture: BuildFixture;
  let page: Page;
  let origin: string;

  beforeAll(async () => {
    dashboard = await openDashboard({ patienceMs });
    ({ fixture, page, origin } = dashboard);
  }, 120_000);
  afterAll(async () => {
    await dashboard?.close();
    expect(dashboard.faults).toEqual([]);
  });

  const go = (path: string) => page.goto(`${origin}${path}`);
  const api = (path: string, init: RequestInit = {}) =>
    fetch(`${origin}/api/v1${path}`, { ...init, headers: { authorization: `Bearer ${dashboardKey}` } });
  /** Types a plan into the editor of the page "Start". */
  async function startPlan(plan: string): Promise<string> {
    // The only project that the fixture drives.
    await go(`/start?project=${encodeURIComponent(basename(fixture.app.config.dataDir))}`);
    await page.getByLabel("The plan, in YAML").fill(plan);
    await page.getByRole("button", { name: "Start this build" }).click();
    await page.waitForURL(/\/builds\/bld_/);
    return /bld_\w+/.exec(page.url())![0];
  }

  it("loads at most 300 KB of compressed script before the first view, and nothing from other hosts", () => {
    const html = readFileSync(join(dashboard.folder, "index.html"), "utf8");
    expect(html).not.toMatch(/(?:src|href)="(?:https?:)?\/\/|<script(?![^>]*\bsrc=)/);
    const scripts = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map((match) => match[1]!);
    const sizes = scripts.map((path) => gzipSync(readFileSync(join(dashboard.folder, path))).length);
    expect(sizes.length).toBeGreaterThan(0);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300 * 1024);
  });

  it("shows nothing without a key, and runs scripts only from its own files", async () => {
    const context = await dashboard.browser.newContext();
    try {
      const stranger = await context.newPage();
      const answer = await stranger.goto(`${origin}/builds`);
      expect(answer?.headers()["content-security-policy"]).toContain("script-src 'self';");
      await stranger.getByLabel("Key").fill("wrong");
      await stranger.getByRole("button", { name: "Sign in" }).click();
      await stranger.getByText("the key is wrong").waitFor();
    } finally {
      await context.close();
    }
  });

  it("signs in every tab of this address by a link until one signs out, and leaves no token in the address", async () => {
    const asked = await fetch(`${origin}/api/v1/session/link`, {
      ...{ method: "POST", body: JSON.stringify({ key: dashboardKey }) },
    });
    const { path } = (await asked.json()) as { path: string };
    const context = await dashboard.browser.newContext();
    try {
      const [first, second] = [await context.newPage(), await context.newPage()];
      const frame = (tab: Page) => tab.getByRole("navigation", { name: "Main" });
      await first.goto(`${origin}${path}&to=/builds`);
      await frame(first).waitFor();
      expect(first.url()).toBe(`${origin}/builds`);
      await first.reload();
      await second.goto(origin);
      await Promise.all([frame(first).waitFor(), frame(second).waitFor()]);
      await second.getByRole("button", { name: "Sign out" }).click();
      // The other tab notices by itself.
      await Promise.all([first.getByLabel("Key").waitFor(), second.getByLabel("Key").waitFor()]);
    } finally {
      await context.close();
    }
  });

  it("shows a plan's faults at their lines as it is typed, and its waves once they are fixed", async () => {
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
    await fixture.until(id, ({ status }) => status === "failed");
    await page.getByRole("link", { name: "see why testing failed" }).click();
    const gate = page.getByRole("complementary", { name: "testing of wave 1" });
    await gate.getByText("exit 1").waitFor();
    expect(await gate.innerText()).toMatch(/sums prices: 6 == 5[\s\S]*0\s+passed\s+1\s+failed/);

    await go(`/builds/${id}?task=cart`);
    const log = page.getByRole("log");
    await log.getByText("red <img src=x onerror=document.title=1><script>").waitFor();
    expect(await page.title()).toContain("Wavesmith");
    expect(await seriousFaults(page)).toEqual([]);

    await go(`/builds/${id}/changes?wave=1`);
    await page.getByText("export const total = () => 6;").waitFor();
    await page.getByText("sums prices: 6 == 5").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("says what needs a person, who settles it with a click or a key", async () => {
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
    expect(await seriousFaults(page)).toEqual([]);
  });

  it("sends a comment on a line to the fixer, and shows its outcome", async () => {
    const id = await startPlan(mended);
    await fixture.until(id, ({ status }) => status === "waiting");
    await go(`/builds/${id}/changes`);
    await page.getByText("the colour is red").waitFor();
    await page.getByRole("button", { name: "Comment on colour.txt" }).click();
    await page.getByLabel("Line").fill("1-0");
    await page.getByLabel("What should change").fill("It must be blue.");
    expect(await page.getByRole("button", { name: "Comment", exact: true }).isDisabled()).toBe(true);
    await page.getByLabel("Lines").fill("2");
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.press("Control+Enter");
    await page.getByText("1 comment is open.").waitFor();
    await page.getByRole("button", { name: "Send to the fixer" }).click();
    await page.getByText("resolved by fix 1").waitFor();
    await page.getByText("the colour is blue").waitFor();
    // A file stays viewed, and folded, after a reload.
    await page.getByLabel("Viewed").check();
    await page.reload();
    await page.getByLabel("Viewed").waitFor();
    expect(await page.getByLabel("Viewed").isChecked()).toBe(true);
    expect(await page.getByText("the colour is blue").count()).toBe(0);
    await api(`/builds/${id}/cancel`, { method: "POST" });
  });

  it("continues a failed build with an edited plan, and shows its faults as it is typed", async () => {
    const id = await startPlan(
      "name: typo\ntasks:\n  - { id: first, run: echo 1 > a.txt }\n  - { id: wrong, dependsOn: [first], run: fasle }\n",
    );
    await page.getByRole("link", { name: "Edit the plan" }).click();
    const editor = page.getByLabel("The plan, in YAML");
    const before = await editor.inputValue();
    expect(before).toContain("run: fasle");
    await editor.fill(before.replace("run: fasle", "rum: echo 2 > b.txt"));
    await page
      .getByRole("button", { name: /line \d+/ })
      .first()
      .waitFor();
    expect(await page.getByRole("button", { name: "Continue with this plan" }).isDisabled()).toBe(true);
    await editor.fill(before.replace("run: fasle", "run: echo 2 > b.txt"));
    await page.getByText("2 waves, 2 tasks").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Continue with this plan" }).click();
    await page.getByText("2 of 2 tasks completed").waitFor();
    const first = await api(`/builds/${id}/tasks/first`);
    expect(await first.json()).toMatchObject({ attempts: 1, status: "completed" });
  });

  it("shows a project's files and memory, and what a restore will do before it does it", async () => {
    await go(`/projects/${fixture.projectId}?tab=files`);
    await page.getByRole("link", { name: /^a\.txt/ }).click();
    await page.getByRole("button", { name: "Download" }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("a.txt");
    expect(await seriousFaults(page)).toEqual([]);

    await page.getByRole("link", { name: "Memory" }).click();
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Memory, in Markdown").fill("Doors are <b>green</b>.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Doors are <b>green</b>.").waitFor();

    await page.getByRole("link", { name: "Builds" }).last().click();
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByText("Snapshot taken.").waitFor();
    await page.getByRole("button", { name: /^Restore the snapshot of/ }).click();
    await page.getByText("Passed waves are in git and stay.").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Restore this snapshot" }).click();
    await page.getByText("The volume is restored to that snapshot.").waitFor();
  });

  it("opens a real terminal in a task's tree", async () => {
    const id = await startPlan("name: tree\ntasks:\n  - { id: leaf, run: echo green > leaf.txt }\n");
    await fixture.until(id, ({ status }) => status === "completed");
    await go(`/builds/${id}?task=leaf`);
    await page.getByRole("link", { name: "Terminal" }).click();
    const screen = page.getByRole("application", { name: "Terminal in the tree of leaf" });
    await screen.getByText("changes are discarded").waitFor();
    await screen.getByRole("textbox").focus();
    // The shell's terminal follows the size of the window.
    const heights = async (): Promise<number[]> => {
      await page.keyboard.type("stty size\n");
      return [...(await screen.innerText()).matchAll(/^(\d+) \d+\s*$/gm)].map(([, rows]) => Number(rows));
    };
    await expect.poll(heights, { timeout: patienceMs, interval: 500 }).not.toEqual([]);
    await page.setViewportSize({ width: 1280, height: 500 });
    const isSmaller = async (): Promise<boolean> => {
      const [first = 0, ...later] = await heights();
      return later.some((rows) => rows < first);
    };
    await expect.poll(isSmaller, { timeout: patienceMs, interval: 500 }).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.keyboard.type("test -t 0 && cat leaf.txt; exit 7\n");
    await page.getByText("The shell has ended with exit code 7.").waitFor();
    expect(await screen.innerText()).toContain("green");
    const audit = (await (await api("/audit")).json()) as { items: object[] };
    expect(audit.items).toContainEqual(expect.objectContaining({ action: "GET /builds/{id}/shell", target: id }));
  }, 90_000);

  it("opens no terminal for a page of another origin, without a key, or with a read-only key", async () => {
    const ask = (headers: Record<string, string>): Promise<number> =>
      new Promise((resolve, reject) => {
        const path = "/api/v1/builds/bld_x/shell";
        const upgrade = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
        const asked = request(`${origin}${path}`, {
          headers: { ...upgrade, "sec-websocket-key": "MDEyMzQ1Njc4OWFiY2RlZg==", ...headers },
        });
        asked.on("response", ({ statusCode = 0 }) => resolve(statusCode));
        asked.on("error", reject);
        asked.end();
      });
    const made = await fetch(`${origin}/api/v1/keys`, {
      ...{ method: "POST", body: JSON.stringify({ name: "looker", scope: "read" }) },
      headers: { authorization: `Bearer ${dashboardKey}` },
    });
    const { key } = (await made.json()) as { key: string };
    const authorization = `Bearer ${dashboardKey}`;
    expect(await ask({})).toBe(401);
    expect(await ask({ authorization: `Bearer ${key}` })).toBe(403);
    expect(await ask({ authorization, origin: "http://elsewhere.example" })).toBe(403);
    expect(await ask({ authorization })).toBe(404); // There is no such build.
  });

  it("edits the settings file and shows its faults, changes a limit, and resumes a paused schedule", async () => {
    const body = `on: { schedule: [{ name: tidy, cron: "0 3 * * *" }] }
plan: { name: tidy, tasks: [{ id: only, run: "true" }] }
`;
    const headers = { authorization: `Bearer ${dashboardKey}`, "content-type": "application/yaml" };
    const name = basename(fixture.app.config.dataDir);
    await fetch(`${origin}/api/v1/projects`, { method: "POST", body: JSON.stringify({ name }), headers });
    const path = `/api/v1/projects/${fixture.projectId}/schedules`;
    const made = await fetch(`${origin}${path}`, { method: "PUT", body, headers });
    const { items } = (await made.json()) as { items: { id: string }[] };
    expect([made.status, items.length]).toEqual([200, 1]);
    await fixture.app.ports.store.schedules.update(
      { id: items[0]!.id },
      { status: "paused", note: "it failed thrice" },
    );

    await go("/settings");
    await page.getByText("it failed thrice").waitFor();
    await page.getByRole("button", { name: "Resume tidy" }).click();
    await page.getByRole("button", { name: "Pause tidy" }).waitFor();

    await page.getByRole("button", { name: "Change the limits of default" }).click();
    await page.getByLabel("Most US dollars for models").fill("many");
    expect(await page.getByRole("button", { name: "Set these limits" }).isDisabled()).toBe(true);
    await page.getByLabel("Most US dollars for models").fill("50");
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Set these limits" }).click();
    await page.getByText("of 50 US dollars for models").waitFor();

    await page.getByRole("button", { name: "Edit the settings file" }).click();
    const editor = page.getByLabel("The settings file, in YAML");
    await editor.fill("limits:\n  tasks: 3\n  tusks: 4\n");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: /line 3/ }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await editor.fill("limits:\n  tasks: 3\n");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Restart the server to use it.").waitFor();
    expect(await editor.count()).toBe(0);
  });

  it("finds pages and builds by keyboard", async () => {
    await go("/");
    // The page listens for keys once it is drawn.
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox", { name: "Page, build, project or action" });
    await box.fill("start");
    await page.getByRole("option", { name: "Start a build" }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Start a build" }).waitFor();
    expect(await box.count()).toBe(0);
  });

  it("says that the server is gone, and continues by itself when it is back", async () => {
    await go("/");
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await dashboard.server.stop(0);
    await page.getByText("The server does not answer").waitFor();
    await dashboard.serveAgain();
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
    expect((await api("/builds")).status).toBe(200);
  });
});
