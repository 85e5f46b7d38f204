import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundle } from "../../src/sandbox/guest/guest-program.ts";
import { scripted } from "../support/agent-builds.ts";
import type { BuildFixture } from "../support/build-fixture.ts";
import { type OpenDashboard, openDashboard, seriousFaults } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const patienceMs = 40_000;
const untilGo = (name: string): string => `while [ ! -e ../../../cache/${name} ]; do sleep 0.05; done`;
const noGates = { testing: false, critic: false, integration: false, maxFixRounds: 0 };
/** Counts a page's notifications, and lets a test hide the page. */
const watchNotifications = `
  globalThis.notified = [];
  globalThis.Notification = class { constructor(title) { notified.push(title); } };
  Notification.permission = "granted";
  Notification.requestPermission = async () => "granted";
  let hidden = false;
  Object.defineProperty(document, "hidden", { get: () => hidden });
  Object.defineProperty(document, "visibilityState", { get: () => (hidden ? "hidden" : "visible") });
  globalThis.hide = (is) => { hidden = is; document.dispatchEvent(new Event("visibilitychange", { bubbles: true })); };
`;

describe.runIf(requires("chromium"))("the dashboard beside a build at work", { timeout: 90_000 }, () => {
  let plans: string;
  let dashboard: OpenDashboard;
  let fixture: BuildFixture;
  let page: Page;
  let origin: string;

  beforeAll(async () => {
    plans = mkdtempSync(join(tmpdir(), "wavesmith-steering-"));
    mkdirSync(join(plans, "seed"));
    const agent = fileURLToPath(new URL("../support/scripted-agent.ts", import.meta.url));
    writeFileSync(join(plans, "seed/agent.mjs"), await bundle(agent));
    dashboard = await openDashboard({ patienceMs });
    ({ fixture, page, origin } = dashboard);
  }, 120_000);
  afterAll(async () => {
    await dashboard?.close();
    rmSync(plans, { recursive: true, force: true });
    expect(dashboard.faults).toEqual([]);
  });

  const go = (path: string) => page.goto(`${origin}${path}`);
  const letGo = async (name: string): Promise<void> => {
    const { ports, config } = fixture.app;
    const endpoint = await ports.driver(config.sandboxDriver).find(fixture.projectId as never);
    await endpoint!.guest.writeFile(`cache/${name}`, "");
  };
  const isRunning = (buildId: string) =>
    fixture.until(
      buildId,
      async () => (await fixture.app.store.attempts.find({ buildId, status: "running" })) !== null,
    );

  // First, because the project's tree begins with its source.
  it("shows a working agent across a reload, sends it messages, and shows everything it was told", async () => {
    const instructions = `think Which colour?\nplan Ask|Paint\nsay at work\nrun ${untilGo("told")}`;
    const tasks = [{ id: "api", agent: "backend", instructions, retries: 0 }];
    const plan = { source: { path: "seed" }, gates: noGates, agents: { backend: scripted }, network: "none", tasks };
    const id = await fixture.request(plan, { planFolder: plans });
    await go(`/builds/${id}?task=api`);
    const log = page.getByRole("log", { name: "What api does" });
    await log.getByText("at work").waitFor();
    await page.reload();
    await log.getByText("at work").waitFor();
    expect(await log.getByText(/^(?:at work|Which colour\?|Paint)$/).count()).toBe(3);
    expect(await seriousFaults(page)).toEqual([]);

    await page.getByLabel("Tell the agent of api").fill("run echo blue > told.txt");
    await page.getByRole("button", { name: "Tell", exact: true }).click();
    await page.getByText("the dashboard, ").waitFor();
    await letGo("told");
    await page.getByText("1 of 1 tasks completed").waitFor();
    await fixture.until(id);
    expect(await fixture.git("show", "main:told.txt")).toBe("blue\n");

    await page.getByRole("link", { name: "Instructions" }).click();
    await page.getByText("The full prompt of attempt 1").click();
    await page.locator("pre.output").filter({ hasText: "say at work" }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("link", { name: "Attempts" }).click();
    const link = await page.getByRole("link", { name: "Open in VS Code" }).getAttribute("href");
    const { searchParams } = new URL(link ?? "");
    expect(searchParams.get("url")).toMatch(/^file:\/\/\/.*\.git$/);
    const branch = searchParams.get("ref") ?? "";
    expect(await fixture.git("show", `${branch}:told.txt`)).toBe("blue\n");
  });

  it("interrupts a busy agent by keyboard", async () => {
    const tasks = [{ id: "busy", agent: "backend", instructions: "say at work\nhang", retries: 0 }];
    const id = await fixture.request({ gates: noGates, agents: { backend: scripted }, network: "none", tasks });
    await go(`/builds/${id}?task=busy`);
    await page.getByRole("log", { name: "What busy does" }).getByText("at work").waitFor();
    await page.getByLabel("Tell the agent of busy").focus();
    await page.keyboard.type("run echo red > now.txt");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Tell now");
    await page.keyboard.press("Enter");
    // A wave has passed before its work reaches main.
    await fixture.until(id);
    expect(await fixture.git("show", "main:now.txt")).toBe("red\n");
  });

  it("notifies a reader in another tab with a notification and the tab's icon", async () => {
    const other = await page.context().newPage();
    try {
      await other.addInitScript(watchNotifications);
      await other.goto(`${origin}/settings`);
      await other.getByRole("button", { name: "Notify me on the desktop" }).click();
      await other.getByRole("button", { name: "Stop desktop notifications" }).waitFor();
      const icon = () => other.locator("link[rel=icon]").getAttribute("href");
      const calm = await icon();
      await other.evaluate("hide(true)");
      await fixture.build({ tasks: [{ id: "only", run: "exit 1", retries: 0 }], gates: noGates });
      await expect.poll(() => other.evaluate("notified.join()"), { timeout: patienceMs }).toMatch(/ failed$/);
      await expect.poll(icon, { timeout: patienceMs }).not.toBe(calm);
      await other.evaluate("hide(false)");
      await other.getByRole("button", { name: "Stop desktop notifications" }).click();
    } finally {
      await other.close();
    }
  });

  it("cancels a build, after saying what will become of its work", async () => {
    const id = await fixture.request({ tasks: [{ id: "slow", run: "sleep 600" }], gates: noGates });
    await isRunning(id);
    await go(`/builds/${id}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByText("waves that passed stay on main").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Cancel the build" }).click();
    await page.locator("h1 ~ .badge").getByText("cancelled").waitFor();
    expect((await fixture.app.store.builds.get({ id: id as never })).status).toBe("cancelled");
  });

  it("shows a build to its end even if the server goes away in the middle", async () => {
    const id = await fixture.request({ tasks: [{ id: "slow", run: untilGo("back") }], gates: noGates });
    await isRunning(id);
    await go(`/builds/${id}`);
    await page.locator("h1 ~ .badge").getByText("running").waitFor();
    await dashboard.server.stop(0);
    await page.getByText("The server does not answer").waitFor();
    await letGo("back");
    await fixture.until(id);
    await dashboard.serveAgain();
    await page.getByText("1 of 1 tasks completed").waitFor();
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
  });

  it("compares a gate's fix rounds, and rolls a build back after saying what that undoes", async () => {
    const id = await fixture.request({
      agents: { fixer: { runtime: "command", command: "echo 5 > sum.txt" } },
      tasks: [
        { id: "sum", run: "echo 6 > sum.txt" },
        { id: "after", dependsOn: ["sum"], run: "echo 1 > after.txt" },
      ],
      gates: { ...noGates, maxFixRounds: 1, integration: { command: "grep 5 sum.txt" } },
    });
    await fixture.until(id);
    await go(`/builds/${id}`);
    await page.locator(".gate-chip").filter({ hasText: "integration" }).first().click();
    const rounds = page.getByRole("region", { name: "Fix rounds" });
    await rounds.getByRole("link", { name: "Round 2" }).click();
    await rounds.getByText(/^settled: /).waitFor();
    expect(await rounds.getByRole("link").allInnerTexts()).toEqual(["Round 1", "Round 2"]);
    expect(await seriousFaults(page)).toEqual([]);

    await page.getByRole("button", { name: "Roll back…" }).click();
    await page.getByText("1 wave is undone, and 1 task is pending again.").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Roll back to wave 1" }).click();
    await fixture.until(id, ({ status }) => status === "waiting");
    await expect(fixture.git("show", "main:after.txt")).rejects.toThrow();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("2 of 2 tasks completed").waitFor();
    expect(await fixture.git("show", "main:after.txt")).toBe("1\n");
  });

  it("shows a preview's output, even after it has stopped", async () => {
    const listen = `require("node:http").createServer((_, reply) => reply.end("ok")).listen(process.env.PORT)`;
    const program = `console.log("listening \\u001b[31mnow"); ${listen}`;
    const id = await fixture.request({
      preview: { command: "node server.cjs" },
      tasks: [{ id: "server", run: `cat > server.cjs <<'END'\n${program}\nEND` }],
      gates: { ...noGates, integration: {} },
    });
    await fixture.until(id);
    await go(`/projects/${fixture.projectId}?tab=preview`);
    const log = page.getByRole("log", { name: "What the preview printed" });
    await log.getByText("listening now").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await go(`/projects/${fixture.projectId}`);
    await page.getByRole("link", { name: "Log", exact: true }).waitFor();
    await page.getByRole("button", { name: "Stop" }).last().click();
    await page.getByText("No build of this project has a preview right now.").waitFor();
    await go(`/projects/${fixture.projectId}?tab=preview`);
    await log.getByText("listening now").waitFor();
    // Nobody requests the output of a job that has ended.
    let reads = 0;
    page.on("request", (request) => {
      if (/\/jobs\/.+\/output/.test(request.url())) reads += 1;
    });
    await page.waitForResponse((response) => response.url().endsWith(`/builds/${id}/jobs`));
    expect(reads).toBe(0);
  });
});
