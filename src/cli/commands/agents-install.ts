import { type Context, refuseServer } from "../context.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, duration } from "../output/format.ts";
import type { Output } from "../output/output.ts";
import { type Installation, type InstallProgress, installAgentByName } from "../parts/agents.ts";
import { traitsOf } from "../parts.ts";

/**
 * `agents install NAME`: installs a pinned agent for sandboxes. Ctrl-C leaves the previous version
 * in place.
 */
export async function install(context: Context, name: string): Promise<number> {
  await refuseServer(context, "it installs a program on this machine");
  const config = await context.config();
  const startedAt = Date.now();
  const abort = new AbortController();
  const interrupts = watchInterrupts(process);
  interrupts.on(() => abort.abort());
  const show = context.json ? (progress: InstallProgress) => context.out.json(progress) : asText(context.out);
  try {
    const made = await installAgentByName(config, name, { onProgress: show, signal: abort.signal });
    if (!context.json && context.out.live) context.out.raw("\r\x1b[K");
    printInstallation(context, made, { tookMs: Date.now() - startedAt, driver: config.sandboxDriver });
    return exit.ok;
  } catch (error) {
    if (!abort.signal.aborted) throw error;
    context.out.note("interrupted: nothing was changed");
    return exit.cancelled;
  } finally {
    interrupts.dispose();
  }
}

/**
 * Updates one line on a terminal; elsewhere prints only the first, because there may be hundreds.
 */
function asText(out: Output): (progress: InstallProgress) => void {
  return (progress) => {
    if (progress.type === "begin") {
      out.line(`fetching at most ${progress.packages} packages, each by its hash`);
    } else if (out.live) {
      const width = Math.max(40, out.size().columns) - 1;
      out.raw(`\r\x1b[K${out.paint("dim", `  ${progress.count} fetched: ${progress.what}`.slice(0, width))}`);
    }
  };
}

function printInstallation(
  { out, json, hints }: Context,
  made: Installation,
  how: { tookMs: number; driver: string },
): void {
  if (json) {
    out.json({ type: "installed", ...made });
    return;
  }
  const state = made.unchanged ? "unchanged" : `installed in ${duration(how.tookMs)}`;
  out.line(`${state}: ${made.name} ${made.version}, ${bytesText(made.sizeBytes)}, in ${made.folder}`);
  out.line(
    traitsOf(how.driver).machine === "engine"
      ? "  sandboxes see it from their next start; an idle one is replaced at its next use and keeps its volume"
      : "  sandboxes see it at once, Docker's from their next start",
  );
  out.line(`  try it: ${hints.command("agents")}`);
}
