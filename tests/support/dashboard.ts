import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { ServedEngine } from "../../src/server/port.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "./build-fixture.ts";

const script = fileURLToPath(new URL("../../scripts/bundle-dashboard.mjs", import.meta.url));
const engine: ServedEngine = { kind: "embedded", serveOrigin: null };
export const dashboardKey = "k3y-of-the-dashboard";

/** Builds the dashboard as `serve` does in a checkout; returns the folder of its files. */
export async function builtDashboard(): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [script]);
  return stdout.trim();
}

/** Serves a fixture's app with the dashboard. */
const serveDashboard = (fixture: BuildFixture, dashboard: string, port = 0): Promise<RunningServer> =>
  startServer({
    ...{ app: fixture.app, engine, key: dashboardKey, host: "127.0.0.1", port, dashboard },
    inform: () => undefined,
    warn: () => undefined,
  });

/** Root needs `--no-sandbox`; nothing is downloaded. */
export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });

/** The dashboard on a fixture of its own, with a page of a signed-in browser. */
export interface OpenDashboard {
  /** The files of the dashboard. */
  readonly folder: string;
  readonly fixture: BuildFixture;
  readonly origin: string;
  /** The server that is running now. */
  readonly server: RunningServer;
  readonly browser: Browser;
  readonly page: Page;
  /** What the page reports as errors. */
  readonly faults: string[];
  /** Serves the app again at the same address, after the server was stopped. */
  serveAgain(): Promise<void>;
  close(): Promise<void>;
}

export async function openDashboard({
  patienceMs,
  env,
}: {
  patienceMs: number;
  env?: Readonly<Record<string, string>>;
}): Promise<OpenDashboard> {
  const faults: string[] = [];
  const [folder, fixture, browser] = await Promise.all([
    builtDashboard(),
    createBuildFixture(env === undefined ? {} : { env }),
    openBrowser(),
  ]);
  let server = await serveDashboard(fixture, folder);
  const { origin } = server;
  const page = await signedIn(browser, origin, faults);
  page.setDefaultTimeout(patienceMs);
  return {
    ...{ folder, fixture, origin, browser, page, faults },
    get server() {
      return server;
    },
    async serveAgain() {
      server = await serveDashboard(fixture, folder, Number(new URL(origin).port));
    },
    async close() {
      await browser.close();
      await server.stop();
      await fixture.close();
    },
  };
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Lists what axe finds serious or critical on a page, each with the first place. */
export async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { axe: checker } = globalThis as unknown as {
      axe: {
        run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
      };
    };
    const { violations } = await checker.run();
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  });
}

/** Opens a page of a signed-in browser, and collects the errors it reports. */
async function signedIn(browser: Browser, origin: string, faults: string[]): Promise<Page> {
  const context: BrowserContext = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  await signInBy(page, origin, dashboardKey);
  return page;
}

/** Signs a browser in with a key. */
export async function signInBy(page: Page, origin: string, key: string): Promise<void> {
  await page.goto(origin);
  await page.getByLabel("Key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Main" }).waitFor();
}
