// Takes the pictures docs/dashboard-*.png, from a real run of the demo: `npm run record-dashboard`.
// Needs Chromium.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openBrowser } from "../tests/support/dashboard.ts";

type Page = Awaited<ReturnType<Awaited<ReturnType<typeof openBrowser>>["newPage"]>>;
const viewport = { width: 1280, height: 760 };
const patienceMs = 300_000;
const command = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));

const folder = mkdtempSync(join(tmpdir(), "guestbook-"));
const demo = spawn(process.execPath, [command, "build", "examples/guestbook/plan.yaml", "--demo", "--web"], {
  env: { ...process.env, WAVESMITH_DATA: join(folder, "data") },
  stdio: ["ignore", "pipe", "inherit"],
});
const ended = new Promise((resolve) => demo.once("exit", resolve));
const browser = await openBrowser();
try {
  const page = await browser.newPage({ viewport, colorScheme: "dark" });
  page.setDefaultTimeout(patienceMs);
  await page.goto(await linkOf(demo.stdout));
  await page.getByText("Wave 3").waitFor();
  const build = page.url().replace(/[?#].*/, "");
  // The build in its most telling moment: two waves passed, and a fixer at work on the third.
  await page.locator(".lane .badge").getByText("fixing").waitFor();
  await picture(page, "waves");
  await page.emulateMedia({ colorScheme: "light" });
  await page.locator(".lane").nth(2).locator(".gate-chip").first().click();
  await page.getByRole("heading", { name: "Evidence" }).waitFor();
  await page.getByRole("region", { name: "Fix rounds" }).getByText("Round 2").waitFor();
  await page.getByRole("link", { name: "Round 1" }).click();
  await page.getByRole("heading", { name: "1 finding" }).waitFor();
  await picture(page, "gate");
  // The server ends with the demo.
  await page.goto(`${build}/changes?wave=3`);
  await page.locator(".tree-file").filter({ hasText: "home.js" }).click();
  await page.locator("[id='src/pages/home.js'] diffs-container").waitFor();
  await picture(page, "changes");
} finally {
  await browser.close();
  demo.kill("SIGINT");
  await ended;
  rmSync(folder, { recursive: true, force: true });
}

/** Returns the link that the demo prints for the browser. */
async function linkOf(output: NodeJS.ReadableStream): Promise<string> {
  const lines = createInterface({ input: output });
  return new Promise((resolve, reject) => {
    lines.on("line", (line) => {
      const link = /(http:\/\/\S+sign-in\S+)/.exec(line)?.[1];
      if (link !== undefined) resolve(link);
    });
    lines.on("close", () => reject(new Error("the demo ended without a link")));
  });
}

async function picture(page: Page, name: string): Promise<void> {
  await page.evaluate("document.fonts.ready");
  await page.evaluate("new Promise((done) => setTimeout(done, 1000))");
  await page.screenshot({ path: fileURLToPath(new URL(`../docs/dashboard-${name}.png`, import.meta.url)) });
}
