import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { junitText, summaryText } from "../../api/ci-report.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { build } from "./build.ts";

/**
 * `ci PLAN`: builds a plan, waits for its end, and writes reports for the CI system: JUnit to the
 * file that `junit` names, and for GitHub Actions a summary and the step's outputs. The exit code
 * is the build's.
 */
export async function ci(context: Context, file: string, { junit }: { junit?: string | undefined }): Promise<number> {
  let buildId: string | null = null;
  const onRequested = (id: string): void => {
    buildId = id;
  };
  // The build uses the commit that is checked out.
  const source = { includeUncommitted: false, ignoreUncommitted: true, updateSource: true };
  const code = await build(context, file, { wait: false, onRequested, ...source });
  if (buildId === null) return code; // It was refused, and the reason is printed.
  const id: string = buildId;
  const { GITHUB_STEP_SUMMARY: summary = "", GITHUB_OUTPUT: outputs = "" } = context.environment;
  if (junit === undefined && summary === "" && outputs === "") return code;
  return withBuilds(context, "ci", async (builds) => {
    const { view } = await builds.see(id);
    if (junit !== undefined) {
      await mkdir(dirname(junit), { recursive: true });
      await writeFile(junit, junitText(view));
    }
    if (summary !== "") await appendFile(summary, summaryText(view));
    if (outputs !== "") await appendFile(outputs, `build=${id}\nstatus=${view.build.status}\n`);
    return code;
  });
}
