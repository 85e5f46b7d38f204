import { setTimeout as delay } from "node:timers/promises";
import type { BuildView, PreviewView } from "../../coordinator/build/build-view.ts";
import { reachPreview } from "../../coordinator/preview/reach-preview.ts";
import { wakePreview } from "../../coordinator/preview/wake-preview.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { oneLine } from "../output/format.ts";
import { type App, previewProxies } from "../parts.ts";

const pollMs = 150;
/** How long a connection waits for a restarting preview. */
const startMs = 5_000;

export interface ShownPreview {
  readonly url: string;
  readonly status: number;
  close(): Promise<void>;
}

export interface PreviewPatience {
  readonly signal: AbortSignal;
  /** How long to wait for the preview. */
  readonly patienceMs: number;
}

/** Opens a port for a build's preview once it answers; otherwise returns why there is none. */
export async function showPreview(
  app: App,
  view: BuildView,
  patience: PreviewPatience,
): Promise<ShownPreview | string> {
  const { id: buildId, plan } = view.build;
  const { signal, patienceMs } = patience;
  const deadline = Date.now() + patienceMs;
  const problem = await untilReady(app, buildId, patience);
  if (problem !== null) return problem;
  const { openPreviewProxy, statusOf } = await previewProxies();
  const proxy = await openPreviewProxy({ reach: () => reachPreview(app.ports, buildId, startMs) });
  const url = `${proxy.origin}${present(plan.preview, "plan.preview").healthPath}`;
  do {
    const status = await statusOf(url, 5_000);
    if (status !== null && status < 500) return { url, status, close: () => proxy.close() };
    await pause();
  } while (Date.now() < deadline && !signal.aborted);
  await proxy.close();
  return "it did not answer";
}

async function untilReady(app: App, buildId: string, { signal, patienceMs }: PreviewPatience): Promise<string | null> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const preview = await app.store.previews.find({ buildId });
    if (preview?.status === "ready") return null;
    if (preview?.status === "asleep") await wakePreview(app.ports, buildId);
    if (preview?.status === "dead" || preview?.status === "stopped") return preview.reason ?? `it is ${preview.status}`;
    if (Date.now() >= deadline) return tooLate(patienceMs, preview?.reason ?? null);
    if (signal.aborted) return "the wait was interrupted";
    await pause();
  }
}

/** Says that a preview was not ready in time, and why its last start failed. */
export const tooLate = (patienceMs: number, reason: string | null): string =>
  `it was not ready within ${patienceMs / 1000} seconds${reason === null ? "" : ` (${oneLine(reason)})`}`;

const pause = (): Promise<void> => delay(pollMs);

export interface WatchedPreview {
  find(): Promise<Pick<PreviewView, "status" | "reason"> | null>;
  say(text: string): void;
  readonly signal: AbortSignal;
  /** Milliseconds between two checks. */
  readonly everyMs?: number;
}

/**
 * Watches a preview until the signal (returns null) or until it has ended (returns the reason).
 * Reports a crash and the restart; the address stays the same.
 */
export async function watchPreview({ find, say, signal, everyMs = 1_000 }: WatchedPreview): Promise<string | null> {
  let before: PreviewView["status"] = "ready";
  while (!signal.aborted) {
    const preview = await find().catch((error: unknown) => {
      if (error instanceof WavesmithError && error.code === "database") return messageOf(error);
      throw error;
    });
    if (preview === null) return "it no longer exists";
    if (typeof preview === "string") return `the database does not answer (${oneLine(preview)})`;
    if (preview.status === "dead" || preview.status === "stopped") {
      return preview.reason === null ? `it is ${preview.status}` : oneLine(preview.reason);
    }
    const change = changeOf(before, preview.status);
    if (change !== null) say(change);
    before = preview.status;
    await aborted(signal, everyMs);
  }
  return null;
}

function changeOf(before: PreviewView["status"], now: PreviewView["status"]): string | null {
  if (now === before) return null;
  if (now === "asleep") return "The preview is asleep; the next request restarts it.";
  if (now === "ready") return "It is back at the same address.";
  return before === "asleep" ? "The preview is restarting." : "The preview crashed; it is restarting.";
}

/** Resolves at the signal, or after this many milliseconds. */
export function aborted(signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
