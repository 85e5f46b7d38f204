import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { ServedEngine } from "../../src/server/port.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import type { BuildFixture } from "./build-fixture.ts";

const script = fileURLToPath(new URL("../../scripts/bundle-dashboard.mjs", import.meta.url));
const engine: ServedEngine = { kind: "embedded", serveOrigin: null };
export const dashboardKey = "k3y-of-the-dashboard";

/** Builds the dashboard as `serve` does in a checkout; returns the folder of its files. */
export async function builtDashboard(): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [script]);
  return stdout.trim();
}

/** Serves a fixture's app with the dashboard. */
export const serveDashboard = (fixture: BuildFixture, dashboard: string, port = 0): Promise<RunningServer> =>
  startServer({
    ...{ app: fixture.app, engine, key: dashboardKey, host: "127.0.0.1", port, dashboard },
    inform: () => undefined,
    warn: () => undefined,
  });

/** Root needs `--no-sandbox`; nothing is downloaded. */
export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });

/** A page of a signed-in browser; what it reports as an error is collected. */
export async function signedIn(browser: Browser, origin: string, faults: string[]): Promise<Page> {
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
