import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BuildFixture } from "../support/build-fixture.ts";
import { type OpenDashboard, openDashboard } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const patienceMs = 60_000;
/** 20 rows of 25 tasks, each of which depends on two tasks of the row before. */
const manyTasks = Array.from({ length: 500 }, (_, index) => {
  const [row, place] = [Math.floor(index / 25), index % 25];
  const before = [place, (place + 1) % 25].map((one) => `t${row - 1}-${one}`);
  return { id: `t${row}-${place}`, run: "exit 1", ...(row === 0 ? {} : { dependsOn: before }) };
});
const manyFiles = `for d in $(seq 15); do mkdir -p p$d; for f in $(seq 20); do
  for l in $(seq 40); do echo "export const v$l = $d * $f + $l;"; done > p$d/f$f.ts; done; done`;

describe.runIf(requires("chromium"))("the dashboard with much to show", () => {
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

  it("pans a graph of 500 tasks, with only the visible ones in the page", async () => {
    const { id } = await fixture.build({ tasks: manyTasks });
    await go(`/builds/${id}`);
    const card = (key: string) => page.locator(`.react-flow__node[data-id='${key}']`);
    await card("t0-0").waitFor();
    expect(await card("t1-0").count()).toBe(0);
    await page.locator(".react-flow__pane").hover();
    const pan = async (): Promise<number> => {
      await page.mouse.wheel(200, 0);
      return card("t1-0").count();
    };
    await expect.poll(pan, { timeout: patienceMs, interval: 50 }).toBe(1);
    expect(await card("t0-0").count()).toBe(0);
  });

  it("shows a diff of 300 files, and colours only the ones in view", { timeout: 240_000 }, async () => {
    const row = await fixture.build({ tasks: [{ id: "many", run: manyFiles }] });
    await go(`/builds/${row.id}/changes`);
    await page.getByText("300 files").waitFor();
    await page.locator("[id='p1/f1.ts'] diffs-container").getByText("export const v40 = 1 * 1 + 40;").waitFor();
    // Code that is not coloured yet is on the page as plain text, even before the browser has laid
    // it out.
    expect(await page.locator("[id='p9/f9.ts'] .file-plain").textContent()).toContain(
      "+ export const v40 = 9 * 9 + 40;",
    );
    expect(await page.locator(".file-change").count()).toBe(300);
    expect(await page.locator("diffs-container").count()).toBeLessThan(30);
    // Files above that are being coloured may push the last one out of view again.
    const drawn = async (): Promise<number> => {
      await page.locator("[id='p9/f9.ts']").scrollIntoViewIfNeeded();
      return page.locator("[id='p9/f9.ts'] diffs-container").getByText("export const v40 = 9 * 9 + 40;").count();
    };
    await expect.poll(drawn, { timeout: patienceMs, interval: 500 }).toBe(1);
  });

  it("follows a log of a million lines, with only a few in the page", async () => {
    const row = await fixture.build({ tasks: [{ id: "loud", run: "seq 1000000; echo done > a.txt" }] });
    await go(`/builds/${row.id}?task=loud`);
    const log = page.getByRole("log");
    await log.getByText("1000000", { exact: true }).waitFor();
    expect(await page.locator(".activity-row").count()).toBeLessThan(200);
    await log.evaluate((element) => {
      element.scrollTop = 0;
    });
    await log.getByText("1", { exact: true }).waitFor();
    const heapBytes = (await page.evaluate("performance.memory.usedJSHeapSize")) as number;
    expect(heapBytes).toBeLessThan(600 * 1024 * 1024);
  });
});
