import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The dashboard's sources in a checkout; its finished files in the package. */
const folder = fileURLToPath(new URL("../../dashboard", import.meta.url));
const script = fileURLToPath(new URL("../../scripts/bundle-dashboard.mjs", import.meta.url));

/**
 * Returns the folder with the dashboard's files. A checkout builds them after each change, which
 * takes some seconds: `onBuild` is called before.
 */
export async function dashboardFiles(onBuild: () => void): Promise<string> {
  if (existsSync(`${folder}/index.html`) && !existsSync(`${folder}/main.tsx`)) return folder;
  const run = promisify(execFile);
  const { stdout: ready } = await run(process.execPath, [script, "--find"]);
  if (ready.trim() !== "") return ready.trim();
  onBuild();
  const { stdout: built } = await run(process.execPath, [script]);
  return built.trim();
}
