import type { SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { previewProxies } from "../parts.ts";
import { aborted, type PreviewPatience, tooLate } from "./show-preview.ts";

const pollMs = 250;

interface ServedPreview {
  readonly context: Context;
  readonly builds: SteeredBuilds;
  readonly buildId: string;
}

/**
 * Tells where a server shows a build's preview, once it is ready; the server keeps it running.
 * Returns the exit code.
 */
export async function tellServed(served: ServedPreview, patience: PreviewPatience): Promise<number> {
  const { context, builds, buildId } = served;
  const { out, json } = context;
  const shown = await untilShown(served, patience);
  const { view } = await builds.see(buildId);
  const { waveNumber: wave, sha: commit } = { sha: view.build.headSha, ...view.preview! };
  if (typeof shown === "string") {
    if (json) out.json({ buildId, project: view.project, wave, commit, url: null, reason: shown });
    else out.line(out.paint("warn", `Preview: not shown: ${shown}`));
    return patience.signal.aborted ? exit.cancelled : exit.failed;
  }
  const { url, answered } = shown;
  if (json) out.json({ buildId, project: view.project, wave, commit, url, answered });
  else {
    const status = answered === null ? "" : ` (answered ${answered})`;
    out.line(`Preview of wave ${wave}: ${url}${status}; \`serve\` keeps it running`);
  }
  return exit.ok;
}

type Shown = { readonly url: string; readonly answered: number | null };

async function untilShown({ builds, buildId }: ServedPreview, patience: PreviewPatience): Promise<Shown | string> {
  const { signal, patienceMs } = patience;
  const deadline = Date.now() + patienceMs;
  const { statusOf } = await previewProxies();
  for (;;) {
    const { view } = await builds.see(buildId);
    const { status, reason, url } = view.preview ?? { status: "starting", reason: null, url: null };
    // A server on another machine shows it there.
    if (status === "ready" && url !== null) return { url, answered: await statusOf(url, 5_000) };
    if (status === "asleep") await builds.startPreview(buildId);
    if (status === "dead" || status === "stopped") return reason ?? `it is ${status}`;
    if (Date.now() >= deadline) return tooLate(patienceMs, reason);
    if (signal.aborted) return "the wait was interrupted";
    await aborted(signal, pollMs);
  }
}
