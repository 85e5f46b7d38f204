import { randomBytes } from "node:crypto";
import type { Browser, BrowserContext, CDPSession, Page } from "playwright-core";
import { type App, createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { requestBuild } from "../src/coordinator/build/request/request-build.ts";
import { eventsOf } from "../src/coordinator/build-events.ts";
import { startServer } from "../src/server/server.ts";
import { builtDashboard, openBrowser, signInBy } from "../tests/support/dashboard.ts";
import { barePage, blanksWhileScrolling, framesWhile, panning, textSeenAt } from "./dashboard-frames.ts";
import { withFolder } from "./database.ts";
import { interleaved, median } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

const key = "bench";
const columns = 25;
const patienceMs = 60_000;

/** The speed of the dashboard in Chromium, drawn without a GPU. */
export const dashboard: Benchmark = {
  name: "dashboard",
  about: "first view, an event on the screen, panning 500 tasks, a long diff, memory over 20,000 events",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const config = loadConfig({ PATH: process.env.PATH, WAVESMITH_DATA: dataDir });
      const [folder, browser, app] = await Promise.all([
        builtDashboard(),
        openBrowser(),
        createApp({ config, warn: () => undefined }),
      ]);
      const silent = () => undefined;
      const engine = { kind: "embedded", serveOrigin: null } as const;
      const options = { app, engine, key, host: "127.0.0.1", port: 0, dashboard: folder };
      const server = await startServer({ ...options, inform: silent, warn: silent });
      await app.start("all");
      try {
        return await measure({ app, browser, origin: server.origin, smoke });
      } finally {
        await browser.close();
        await server.stop();
        for (const { id } of await app.ports.store.projects.list({}))
          await app.ports.driver(config.sandboxDriver).remove(id, { volume: true });
        await app.close();
      }
    }),
};

interface World {
  readonly app: App;
  readonly browser: Browser;
  readonly origin: string;
  readonly smoke: boolean;
}

async function measure(world: World): Promise<Finding[]> {
  const { app, browser, origin, smoke } = world;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await signInBy(await context.newPage(), origin, key);
  const live = await begin(app, "live", { tasks: manyTasks(smoke ? 50 : 500), limits: { maxParallelTasks: 2 } });
  await until(async () => (await app.ports.store.builds.get({ id: live })).status === "running");
  const page = await context.newPage();
  const first = await firstViews(world, context);
  const event = await eventTimes(world, page);
  const frames = await panFrames(world, page, live);
  const heap = await heapOverEvents(world, page, live);
  const blanks = await blankFrames(world, page);
  return [...first, ...event, ...frames, ...heap, ...blanks];
}

/** Every task needs two of the row before, and none ends by itself. */
const manyTasks = (count: number) =>
  Array.from({ length: count }, (_, index) => {
    const [row, place] = [Math.floor(index / columns), index % columns];
    const before = [place, (place + 1) % columns].map((one) => `t${row - 1}-${one}`);
    return { id: `t${row}-${place}`, run: "sleep 3600", ...(row === 0 ? {} : { dependsOn: before }) };
  });

async function begin(app: App, project: string, plan: object): Promise<string> {
  const id = `project/build.requested:bench-${randomBytes(6).toString("hex")}:0`;
  const data = { project, plan: { name: "bench", ...plan } };
  const { buildId } = await requestBuild(app.ports, { id, data }, app.config.sandboxDriver);
  await app.flush();
  return buildId;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + patienceMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`nothing happened for ${patienceMs} ms`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

/** From the address to a page that has drawn what the server said. */
async function firstViews({ browser, origin, smoke }: World, signedIn: BrowserContext): Promise<Finding[]> {
  const storageState = await signedIn.storageState();
  const times: number[] = [];
  for (let round = 0; round < (smoke ? 1 : 7); round += 1) {
    // A context of its own has an empty cache.
    const context = await browser.newContext({ storageState, viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    const begun = performance.now();
    await page.goto(origin, { waitUntil: "commit" });
    await page.getByRole("heading", { name: "Running now" }).waitFor();
    times.push(performance.now() - begun);
    await context.close();
  }
  return [{ what: "the first view, from an empty cache", ours: median(times), unit: "ms", floor: null, limit: 1_500 }];
}

/** From the request to cancel a build to the screen of somebody who follows it. */
async function eventTimes({ app, origin, smoke }: World, page: Page): Promise<Finding[]> {
  const times: number[] = [];
  for (let round = 0; round < (smoke ? 1 : 9); round += 1) {
    // It waits for the live build of its project.
    const id = await begin(app, "live", { tasks: [{ id: "only", run: "true" }] });
    await page.goto(`${origin}/builds/${id}`);
    await page.locator("h1 ~ .badge").getByText("queued").waitFor();
    const seen = textSeenAt(page, "h1 ~ .badge", "cancel");
    const begun = Date.now();
    const headers = { authorization: `Bearer ${key}` };
    await fetch(`${origin}/api/v1/builds/${id}/cancel`, { method: "POST", headers });
    times.push((await seen) - begun);
  }
  return [
    { what: "an event on the screen, with its request", ours: median(times), unit: "ms", floor: null, limit: 300 },
  ];
}

async function panFrames({ browser, origin, smoke }: World, page: Page, buildId: string): Promise<Finding[]> {
  await page.goto(`${origin}/builds/${buildId}`);
  await page.locator(".react-flow__node-task").first().waitFor();
  const bare = await barePage(browser);
  const ms = smoke ? 300 : 3_000;
  // The first pass draws and compiles; a reader's second already meets cards that were there.
  const firstPass = await framesWhile(page, panning.graph, ms);
  const frame = await interleaved(smoke ? 1 : 3, {
    ours: async () => framesWhile(page, panning.graph, ms),
    bare: async () => framesWhile(bare, panning.bare, ms),
  });
  await bare.context().close();
  const floor = { what: "500 bare boxes moved by a transform", value: frame.bare };
  return [
    { what: "a frame while a graph of 500 tasks first pans", ours: firstPass, unit: "ms", floor: null, limit: null },
    { what: "a frame while it pans again", ours: frame.ours, unit: "ms", floor: null, limit: 20 },
    { what: "the same, beside a bare page", ours: frame.ours, unit: "ms", floor, limit: 1.5 },
  ];
}

/** As many events as an hour of a busy build has. */
async function heapOverEvents({ app, smoke }: World, page: Page, buildId: string): Promise<Finding[]> {
  const build = await app.ports.store.builds.get({ id: buildId });
  const [attempt] = await app.ports.store.attempts.list({ buildId: build.id }, { limit: 1, by: "createdAt" });
  if (attempt === undefined) throw new Error("the live build has no attempt");
  const activity = { kind: "message", text: "I am still at work on this." } as const;
  const about = { waveNumber: 1, role: attempt.role, taskKey: "t0-0", activity };
  const session = await page.context().newCDPSession(page);
  const [parts, perPart, atOnce] = smoke ? [3, 20, 10] : [4, 5_000, 50];
  const heaps: number[] = [];
  for (let part = 0; part < parts; part += 1) {
    for (let at = 0; at < perPart; at += atOnce) {
      await app.ports.store.transaction("report-activity", async (transaction) => {
        for (let one = 0; one < atOnce; one += 1)
          await eventsOf(transaction, build).activity(attempt.id, part * perPart + at + one, about);
      });
      await new Promise((wake) => setTimeout(wake, 20));
    }
    await new Promise((wake) => setTimeout(wake, 1_000));
    heaps.push(await heapMb(session));
  }
  const [before = 0, ...after] = heaps;
  return [
    { what: "heap of the page after 5,000 events", ours: before, unit: "MB", floor: null, limit: null },
    {
      what: "the same after 20,000",
      ours: after.at(-1) ?? before,
      unit: "MB",
      floor: { what: "after 5,000", value: before },
      limit: 1.1,
    },
  ];
}

async function heapMb(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return usedSize / 1e6;
}

const manyFiles = (count: number): string => `for f in $(seq ${count}); do
  for l in $(seq 40); do echo "export const v$l = $f + $l;"; done > f$f.ts; done`;

/** Scrolls through a long diff at the speed of a hurried reader, 2,400 pixels a second. */
async function blankFrames({ app, origin, smoke }: World, page: Page): Promise<Finding[]> {
  const id = await begin(app, "wide", { tasks: [{ id: "many", run: manyFiles(smoke ? 20 : 300) }] });
  await until(async () => (await app.ports.store.builds.get({ id })).status === "completed");
  await page.goto(`${origin}/builds/${id}/changes`);
  await page.locator("diffs-container").first().waitFor();
  const share = await blanksWhileScrolling(page, smoke ? 300 : 10_000);
  return [
    {
      what: "places without text while a diff of 300 files scrolls, in 100",
      ours: share * 100,
      unit: "places",
      floor: null,
      limit: 0,
    },
  ];
}
