import { setTimeout as delay } from "node:timers/promises";
import { type BuildFinished, buildFinished } from "../../api/build-result.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Steered } from "../builds/open.ts";
import type { BuildWatch, SeenBuild } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { type Interrupts, readerGone } from "../interrupts.ts";
import { exit, exitCodeOf } from "../output/exit-codes.ts";
import { tellServed } from "../preview/served-preview.ts";
import { showPreview } from "../preview/show-preview.ts";
import { tellPreview } from "../preview/tell-preview.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";
import { summary } from "../view/summary.ts";
import { isInteractive, openAnswering } from "./answering.ts";
import { deliverAtEnd } from "./delivery.ts";
import { follow } from "./follow.ts";
import { nextDecision } from "./next-decision.ts";
import { tellWaiting, untilItsTurn } from "./turn.ts";

export interface DriveOptions extends Steered {
  readonly context: Context;
  readonly presenter: Presenter;
  readonly interrupts: Interrupts;
  readonly buildId: string;
  /** Where to start reporting: from the beginning, or with what this watch sees next. */
  readonly from: "first" | BuildWatch;
  /** Exits when the build ends, even if it has a preview. */
  readonly noWait: boolean;
}

/**
 * Drives a stored build to its end, shows it, and returns the exit code. Ctrl-C cancels it. A
 * person at the terminal can decide about a build that waits or failed, and it continues.
 */
export async function driveToEnd(options: DriveOptions): Promise<number> {
  const { context, builds, interrupts, buildId } = options;
  let current = options;
  let end: { code: number; interrupts: number } | null = null;
  let giveUp: (error: unknown) => void = () => undefined;
  const interrupted = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  interrupts.on((count, cause) => {
    // After the build, the first Ctrl-C ends the preview and the second skips the cleanup; a reader
    // that goes early (`| head`) never asks to skip it.
    if (end !== null && cause !== readerGone && ++end.interrupts > 1) process.exit(end.code);
    if (end !== null) return;
    if (count > 1) return leave(current);
    untilFull(options).catch(giveUp);
    void cancel(current).catch((error: unknown) => {
      if (!isDiskFull(error)) current.presenter.warn(messageOf(error));
    });
  });
  const ahead = await Promise.race([interrupted, untilItsTurn(options)]);
  if (ahead !== null) return tellWaiting(options, ahead);
  for (;;) {
    const view = await Promise.race([interrupted, shown(current)]).finally(() => current.presenter.close());
    const code = exitCodeOf(view.build.status);
    end = { code, interrupts: 0 };
    await untilDelivered(options);
    await options.session?.app.ports.models.countLeft();
    const finished = await printEnd(context, await builds.see(buildId));
    await showApplication(options, view, interrupts.count > 0);
    const asks = isInteractive(context) && !options.noWait && interrupts.count === 0;
    const next = asks ? await nextDecision(options, view) : null;
    if (next !== null) {
      current = { ...options, presenter: createPresenter(context), from: next };
      end = null;
      continue;
    }
    end = { code, interrupts: 1 };
    if (context.json) context.out.json(finished);
    return code;
  }
}

async function shown(options: DriveOptions): Promise<BuildView> {
  const { builds, buildId, from } = options;
  const answering = openAnswering(options, (given) => builds.answer(buildId, given));
  try {
    const watch = from === "first" ? await builds.watch(buildId, "first") : from;
    return await follow({ watch, whole: from === "first", presenter: answering.presenter });
  } finally {
    answering.close();
  }
}

const deliveryPatienceMs = 2 * 60_000;
const deliveryLookMs = 250;

/**
 * Waits until a build's pull requests are up to date or stuck, because only a process that drives
 * builds delivers them. What people and checks decide later is not waited for.
 */
async function untilDelivered({ builds, session, buildId, interrupts }: DriveOptions): Promise<void> {
  if (session === null) return;
  const deadline = Date.now() + deliveryPatienceMs;
  while (Date.now() < deadline && interrupts.count === 0) {
    const { pullRequests = [] } = (await builds.see(buildId)).view;
    if (pullRequests.every(({ status, tries }) => status !== "waiting" || tries > 0)) return;
    await delay(deliveryLookMs);
  }
}

const cancelMs = 4_000;

/** Watches a cancel: rejects if a full disk keeps it from being recorded; never resolves. */
async function untilFull({ session, buildId }: DriveOptions): Promise<never> {
  for (;;) {
    await delay(cancelMs, undefined, { ref: false });
    const trouble = session?.app.diskTrouble() ?? null;
    if (trouble === null) continue;
    throw new WavesmithError("environment", `${trouble}: the build is interrupted and its agents are stopped`, {
      remedy: `free some space, then continue it: wavesmith resume ${buildId}`,
      cause: new Error("no space left on device"),
    });
  }
}

/**
 * Delivers what was built from a person's repository, unless that was done before, and prints the
 * summary of a finished build. Returns the fields about it for the last line of `--json`.
 */
export async function printEnd(context: Context, seen: SeenBuild): Promise<BuildFinished> {
  const { out, hints, json } = context;
  const { view, repository, authority, planFile } = seen;
  // A server delivers to repositories on its own machine.
  const end = authority === null ? null : await deliverAtEnd({ context, view, authority: async () => authority });
  if (!json) {
    const delivered = end?.lines ?? null;
    for (const { tone, text } of summary(view, { authority, planFile, hints, now: new Date(), delivered })) {
      out.line(out.paint(tone, text));
    }
  }
  const finished = buildFinished(view, repository, planFile);
  if (end === null || end.delivered === null) return finished;
  const { root, branch, commit } = end.delivered;
  return { ...finished, delivery: { root, branch, commit } };
}

async function cancel({ builds, session, presenter, interrupts, buildId }: DriveOptions): Promise<void> {
  const text = "cancelling: stopping the agents and keeping their work… (Ctrl-C again quits at once)";
  presenter.lines([{ tone: "warn", text }]);
  await builds.cancel(buildId, `cancelled with ${interrupts.cause}`);
  await session?.app.reconcile();
}

function leave({ context, presenter, buildId }: DriveOptions): never {
  presenter.close();
  const again = context.hints.command(`resume ${buildId}`);
  context.out.note(`quit at once: agents may still be running. To finish cancelling: ${again}`);
  process.exit(exit.cancelled);
}

/** Shows a completed build's preview, on a terminal until Ctrl-C. */
async function showApplication(options: DriveOptions, view: BuildView, interrupted: boolean): Promise<void> {
  const { context, builds, session, interrupts, buildId, noWait } = options;
  if (view.build.status !== "completed" || view.build.plan.preview === null) return;
  const stopping = new AbortController();
  interrupts.on(() => stopping.abort());
  if (interrupted) stopping.abort();
  const patience = { signal: stopping.signal, patienceMs: 20_000 };
  if (session === null) {
    if (!context.json) await tellServed({ context, builds, buildId }, patience);
    return;
  }
  const { signal } = stopping;
  const shown = await showPreview(session.app, view, patience);
  try {
    await tellPreview({ context, store: session.app.store, buildId, noWait, signal }, shown);
  } finally {
    if (typeof shown !== "string") await shown.close();
    const { stopPreview } = await import("../../coordinator/preview/preview.ts");
    await stopPreview(session.app.ports, buildId, "the command that showed it ended");
  }
}
