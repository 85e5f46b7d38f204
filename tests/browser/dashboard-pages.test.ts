import { basename } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BuildFixture } from "../support/build-fixture.ts";
import { type OpenDashboard, openDashboard, seriousFaults } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const patienceMs = 40_000;
const phone = { width: 390, height: 844 };
const desk = { width: 1280, height: 800 };
const mostTabs = 80;
const drafted = {
  name: "drafted",
  tasks: ["greeting", "echo"].map((id) => ({
    ...{ id, agent: "backend", instructions: `Write ${id}.txt.`, dependsOn: id === "echo" ? ["greeting"] : [] },
    acceptance: [{ check: `test -e ${id}.txt` }],
  })),
  gates: { testing: { command: "echo 1..1; echo ok 1 - fine" } },
};
const handIn = (result: object) => ({
  runtime: "command",
  command: `echo '${JSON.stringify(result)}' > $WAVESMITH_RESULT_FILE`,
});
/** A planner that submits its plan, and agents that write a file named after their task. */
const briefAgents = {
  planner: handIn(drafted),
  critic: handIn({ findings: [] }),
  default: { runtime: "command", command: 'echo "$WAVESMITH_TASK" > "$WAVESMITH_TASK.txt"' },
};

describe.runIf(requires("chromium"))("every page of the dashboard", { timeout: 240_000 }, () => {
  let dashboard: OpenDashboard;
  let fixture: BuildFixture;
  let page: Page;
  let origin: string;
  /** A build of two waves that has completed. */
  let done: string;
  /** A build whose gate has failed. */
  let failed: string;

  beforeAll(async () => {
    dashboard = await openDashboard({ patienceMs, env: { WAVESMITH_ROLES: JSON.stringify(briefAgents) } });
    ({ fixture, page, origin } = dashboard);
    const gates = { critic: false, testing: false };
    const first = await fixture.build({
      tasks: [
        { id: "first", run: "echo 1 > a.txt" },
        { id: "second", dependsOn: ["first"], run: "echo 2 > b.txt" },
      ],
      gates: { ...gates, integration: { command: "test -e a.txt" } },
    });
    done = first.id;
    const tasks = [{ id: "sum", run: "echo 6 > sum.txt" }];
    failed = (await fixture.build({ tasks, gates: { ...gates, integration: { command: "grep 5 sum.txt" } } })).id;
  }, 180_000);
  afterAll(async () => {
    await dashboard?.close();
    expect(dashboard.faults).toEqual([]);
  });

  const go = async (path: string): Promise<void> => {
    await page.goto(`${origin}${path}`);
    await page.locator("h1").waitFor();
    await expect.poll(() => page.getByText(/^Loading /).count(), { timeout: patienceMs }).toBe(0);
  };
  /** Presses Tab until the focus is on an element with this name. */
  async function tabTo(name: RegExp): Promise<void> {
    const names: string[] = [];
    while (names.length < mostTabs) {
      await page.keyboard.press("Tab");
      const focused = (await page.evaluate(
        "document.activeElement.ariaLabel ?? document.activeElement.textContent",
      )) as string;
      if (name.test(focused.trim())) return;
      names.push(focused.trim());
    }
    throw new Error(`Tab does not reach ${name}; it reaches ${names.join(" | ")}`);
  }

  it("fits a phone and a desktop, and has no serious accessibility fault in either theme", async () => {
    const [run] = await fixture.app.ports.store.gateRuns.list({ buildId: failed as never });
    const parts = ["?view=timeline", "?view=board", "/changes", "/request", "/request?wave=1", "/plan"];
    const taskParts = ["", "&part=changes", "&part=instructions", "&part=attempts", "&part=terminal"];
    const project = `/projects/${fixture.projectId}`;
    const paths = [
      ...["/", "/builds", "/builds?only=failed", "/projects", "/start", "/start?from=brief", "/settings"],
      ...["", ...parts].map((part) => `/builds/${done}${part}`),
      ...taskParts.map((part) => `/builds/${done}?task=first${part}`),
      ...["", `?gate=${run!.id}`, "/changes"].map((part) => `/builds/${failed}${part}`),
      ...["", "?tab=files", "?tab=files&file=a.txt", "?tab=memory", "?tab=preview"].map((part) => project + part),
      ...["/nowhere", "/builds/bld_none", "/builds/bld_none/changes", "/projects/none"],
    ];
    for (const path of paths) {
      for (const [colorScheme, size] of [["light", phone] as const, ["dark", desk] as const]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize(size);
        await go(path);
        const excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        const faults = await seriousFaults(page);
        expect({ path, colorScheme, excess, faults }).toEqual({ path, colorScheme, excess: 0, faults: [] });
      }
    }
    await page.emulateMedia({ colorScheme: null });
  });

  it("keeps its view in the address, so that others can open it", async () => {
    await go(`/builds/${done}?task=first`);
    await page.getByRole("link", { name: "Timeline" }).click();
    await page.getByRole("link", { name: "Attempts" }).click();
    await page.getByText("Copy git clone").waitFor();
    const other = await page.context().newPage();
    try {
      await other.goto(page.url());
      await other.getByText("Copy git clone").waitFor();
      const current = other.locator(".tab[aria-current=page]");
      expect(await current.allInnerTexts()).toEqual(["Timeline", "Attempts"]);
    } finally {
      await other.close();
    }
  });

  it("shows times in the zone of its reader", async () => {
    const context = await dashboard.browser.newContext({
      ...{ timezoneId: "Asia/Kathmandu", locale: "en-GB", storageState: await page.context().storageState() },
    });
    try {
      const there = await context.newPage();
      await there.goto(`${origin}/builds`);
      const time = there.locator("time").first();
      const at = new Date((await time.getAttribute("datetime")) ?? "");
      const clock = at.toLocaleTimeString("en-GB", { timeZone: "Asia/Kathmandu" });
      expect(await time.getAttribute("title")).toContain(`${clock} GMT+5:45`);
    } finally {
      await context.close();
    }
  });

  it("starts, approves and comments by keyboard alone, and always shows the focus", async () => {
    await go("/");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("start a");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Start a build" }).waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Start a build");
    await page.goto(`${origin}/start?project=${encodeURIComponent(basename(fixture.app.config.dataDir))}`);
    await tabTo(/^The plan, in YAML$/);
    await page.keyboard.press("Control+a");
    const plan = "name: keys\napproval: wave\ntasks:\n- { id: leaf, run: 'echo green > leaf.txt' }\n";
    await page.keyboard.insertText(`${plan}gates: { critic: false, testing: false, integration: false }\n`);
    await page.getByText("1 wave, 1 task").waitFor();
    // Tab indents in the editor, until Escape.
    await page.keyboard.press("Escape");
    await tabTo(/^Start this build$/);
    await page.keyboard.press("Enter");
    await page.getByText("Is wave 1 good?").waitFor();
    const id = /bld_\w+/.exec(page.url())![0];

    // The graph's cards are buttons; the panel takes the focus, and gives it back.
    await tabTo(/^[a-z]+leaf/);
    await page.keyboard.press("Enter");
    const panel = page.getByRole("complementary", { name: "Task leaf" });
    await panel.waitFor();
    expect(await page.evaluate("document.activeElement.ariaLabel")).toBe("Task leaf");
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    expect(await page.evaluate("document.activeElement.dataset.id")).toBe("leaf");

    await page.goto(`${origin}/builds/${id}`);
    await page.getByText("Is wave 1 good?").waitFor();
    await tabTo(/^See its changes$/);
    await page.keyboard.press("Enter");
    await page.getByText("green").waitFor();
    await tabTo(/^Comment on leaf\.txt$/);
    await page.keyboard.press("Enter");
    await page.keyboard.type("It must be blue.");
    await page.keyboard.press("Control+Enter");
    await page.getByText("1 comment is open.").waitFor();

    await page.goto(`${origin}/builds/${id}`);
    await page.getByText("Is wave 1 good?").waitFor();
    expect(await page.getByRole("status").allInnerTexts()).toContain("wave 1 is waiting for approval");
    await page.keyboard.press("d");
    await page.getByRole("textbox", { name: "Reason" }).waitFor();
    await page.keyboard.type("Too green.");
    await tabTo(/^Reject$/);
    await page.keyboard.press("Enter");
    await page.getByText("rejected: Too green.").first().waitFor();
    expect((await fixture.until(id, ({ status }) => status !== "waiting")).status).toBe("failed");
  });

  it("drafts a plan from a description, and runs it once its waves are approved", async () => {
    await go(`/start?from=brief&project=${encodeURIComponent(basename(fixture.app.config.dataDir))}`);
    await page.getByLabel("What do you want?").fill("A greeting in a file.");
    await page.getByRole("button", { name: "Draft a plan" }).click();
    await page.getByText("Is this plan good?").waitFor();
    const id = /bld_\w+/.exec(page.url())![0];
    for (const task of ["greeting", "echo"])
      await page.locator(`.react-flow__node[data-id='${task}']`).getByText("pending").first().waitFor();
    expect(await fixture.tasks(id)).toMatchObject({ greeting: "pending", echo: "pending" });
    await page.getByRole("button", { name: "Approve" }).click();
    const over = await fixture.until(id, ({ status }) => status === "completed" || status === "failed");
    expect(over).toMatchObject({ status: "completed", reason: null });
    await page.getByText("3 of 3 tasks completed").waitFor();
    expect(await fixture.git("show", "main:echo.txt")).toBe("echo\n");
  });

  it("retries a failed build", async () => {
    const runs = () => fixture.app.ports.store.gateRuns.list({ buildId: failed as never });
    const before = (await runs()).length;
    await go(`/builds/${failed}`);
    await page.getByRole("button", { name: "Retry" }).click();
    await expect.poll(async () => (await runs()).length, { timeout: patienceMs }).toBeGreaterThan(before);
    await fixture.until(failed);
  });

  it("rolls a project back to one of its restore points", async () => {
    await go(`/projects/${fixture.projectId}`);
    const points = page.getByRole("region", { name: "Restore points" });
    const here = points.getByRole("listitem").filter({ hasText: "main is here" });
    await here.waitFor();
    const commit = await points.getByRole("listitem").nth(1).locator(".mono.tiny").innerText();
    await points
      .getByRole("button", { name: /^Roll back to wave/ })
      .first()
      .click();
    await page.getByText(/1 wave is undone, and 1 task is pending again/).waitFor();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Roll back to wave/ })
      .click();
    await here.filter({ hasText: commit }).waitFor();
    expect((await fixture.git("rev-parse", "main")).slice(0, commit.length)).toBe(commit);
  });
});
