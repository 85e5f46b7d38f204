import type { BuildView, PreviewView } from "../coordinator/read-build.ts";
import { messageOf } from "../domain/errors.ts";
import { isAway } from "./follow.ts";
import { oneLine } from "./format.ts";
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

export interface WatchedPreview {
  find(): Promise<PreviewView | null>;
  say(text: string): void;
  readonly signal: AbortSignal;
  /** Between two looks, in milliseconds. */
  readonly everyMs?: number;
}

/**
 * Watches a shown preview until the signal (then null) or until it is over (then why). One that died and is started
 * again is told of and watched on: its address stays.
 */
export async function watchPreview({ find, say, signal, everyMs = 1_000 }: WatchedPreview): Promise<string | null> {
  let starting = false;
  while (!signal.aborted) {
    const preview = await find().catch((error: unknown) => {
      if (isAway(error)) return messageOf(error);
      throw error;
    });
    if (preview === null) return "there is none any more";
    if (typeof preview === "string") return `the database does not answer (${oneLine(preview)})`;
    if (preview.status === "dead" || preview.status === "stopped") {
      return preview.reason === null ? `it is ${preview.status}` : oneLine(preview.reason);
    }
    if (preview.status === "starting" && !starting) say("The preview has died; it is started again.");
    if (preview.status === "ready" && starting) say("It answers again, at the same address.");
    starting = preview.status === "starting";
    await aborted(signal, everyMs);
  }
  return null;
}

/** Resolves when the signal comes, at the latest after so many milliseconds. */
function aborted(signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
