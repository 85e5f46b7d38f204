import type { BuildView } from "../coordinator/read-build.ts";
import { type App, previewProxies } from "./parts.ts";

/** How long a preview of a completed build is waited for. */
const patienceMs = 20_000;
const pollMs = 150;

export interface ShownPreview {
  readonly url: string;
  readonly status: number;
  close(): Promise<void>;
}

/** The preview of a completed build behind a port of ours, once it has answered; else why there is none. */
export async function showPreview(app: App, view: BuildView, signal: AbortSignal): Promise<ShownPreview | string> {
  const { projectId, id: buildId, sandboxDriver, plan } = view.build;
  const deadline = Date.now() + patienceMs;
  const problem = await untilReady(app, buildId, deadline, signal);
  if (problem !== null) return problem;
  const { openPreviewProxy, statusOf } = await previewProxies();
  const proxy = await openPreviewProxy(async () => {
    // One that died was started again behind another port.
    const { port } = await app.store.previews.get({ buildId });
    const endpoint = await app.ports.driver(sandboxDriver).find(projectId as never);
    if (endpoint === null) throw new Error(`the sandbox of ${projectId} is gone`);
    return endpoint.guest.tunnel(port);
  });
  const url = `${proxy.origin}${plan.preview!.healthPath}`;
  do {
    const status = await statusOf(url, 5_000);
    if (status !== null && status < 500) return { url, status, close: () => proxy.close() };
    await pause();
  } while (Date.now() < deadline && !signal.aborted);
  await proxy.close();
  return "it did not answer through its tunnel";
}

async function untilReady(app: App, buildId: string, deadline: number, signal: AbortSignal): Promise<string | null> {
  for (;;) {
    const preview = await app.store.previews.find({ buildId });
    if (preview?.status === "ready") return null;
    if (preview?.status === "dead" || preview?.status === "stopped") return preview.reason ?? `it is ${preview.status}`;
    if (Date.now() >= deadline) return `it was not ready within ${patienceMs / 1000} seconds`;
    if (signal.aborted) return "it was not waited for";
    await pause();
  }
}

const pause = (): Promise<void> => new Promise((wake) => setTimeout(wake, pollMs));
