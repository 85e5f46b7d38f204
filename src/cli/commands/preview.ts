import type { BuildView } from "../../coordinator/build/build-view.ts";
import { createBuildReader } from "../../coordinator/build/read-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { sandboxBuildStatuses } from "../../domain/status.ts";
import { isAllServed, isServed } from "../../store/serving.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withSteered } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest, requireBuilds } from "../data/find-build.ts";
import { type Session, withSession } from "../data/session.ts";
import { type Interrupts, readerGone, watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { openStore, requireDriver } from "../parts.ts";
import { tellServed } from "../preview/served-preview.ts";
import { type ShownPreview, showPreview } from "../preview/show-preview.ts";
import { tellPreview } from "../preview/tell-preview.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";

/** A first start may install what the preview needs. */
const patienceMs = 150_000;

interface Showing {
  readonly context: Context;
  readonly session: Session;
  readonly presenter: Presenter;
  readonly buildId: string;
  readonly noWait: boolean;
  readonly signal: AbortSignal;
}

/** `preview [BUILD]`: shows a finished or waiting build's preview, on a terminal until Ctrl-C. */
export async function preview(
  context: Context,
  name: string | undefined,
  { wait }: { wait: boolean },
): Promise<number> {
  const isSent = (await context.server()) !== null;
  if (!isSent) await requireBuilds(context);
  const presenter = createPresenter(context);
  const interrupts = watchInterrupts(process);
  context.out.onClosed(() => interrupts.raise(readerGone));
  const signal = signalOf(interrupts);
  try {
    if (isSent) return await showServed(context, { presenter, name, signal });
    return await withSession(context, presenter, async (session) => {
      const buildId = await findBuildOrLatest(session.app.store, context, name);
      return show({ context, session, presenter, buildId, noWait: !wait, signal });
    });
  } finally {
    presenter.close();
    interrupts.dispose();
  }
}

interface ServedShowing {
  readonly presenter: Presenter;
  readonly name: string | undefined;
  readonly signal: AbortSignal;
}

function showServed(context: Context, { presenter, name, signal }: ServedShowing): Promise<number> {
  return withSteered(context, presenter, async ({ builds }) => {
    const buildId = await chooseBuild(builds, context, name);
    await builds.startPreview(buildId);
    return tellServed({ context, builds, buildId }, { signal, patienceMs });
  });
}

/** Aborts at the first Ctrl-C; the second one skips the cleanup. */
function signalOf(interrupts: Interrupts): AbortSignal {
  const stopping = new AbortController();
  interrupts.on((count) => {
    if (count > 1) process.exit(exit.cancelled);
    stopping.abort();
  });
  return stopping.signal;
}

async function show(showing: Showing): Promise<number> {
  const { session, presenter, buildId, signal } = showing;
  const { app, config } = session;
  const { projectId, sandboxDriver } = await app.store.builds.get({ id: buildId });
  await requireDriver(config, sandboxDriver);
  const { requestPreview } = await import("../../coordinator/preview/request-preview.ts");
  const { stopPreview } = await import("../../coordinator/preview/preview.ts");
  const byServe = await isShownByServe(showing);
  presenter.phase("starting the preview");
  const isOurs = (await requestPreview(app.ports, buildId)) && !byServe;
  await session.drive(projectId);
  await app.flush();
  const view = await createBuildReader(app.store, buildId).read();
  const shown = await showPreview(app, view, { signal, patienceMs });
  presenter.close();
  try {
    const served = byServe ? ((await createBuildReader(app.store, buildId).read()).preview?.url ?? null) : null;
    return await tell(showing, { view, shown, served });
  } finally {
    if (typeof shown !== "string") await shown.close();
    if (isOurs) await stopPreview(app.ports, buildId, "the command that showed it ended");
  }
}

/**
 * Whether a `serve` runs, which keeps previews. Fails with `conflict` when a build of the project
 * was interrupted, because to show a preview is to drive the project's builds.
 */
async function isShownByServe({ context, session, buildId }: Showing): Promise<boolean> {
  const { store } = session.app;
  const { projectId } = await store.builds.get({ id: buildId });
  const { database, close } = await openStore(session.config, "look");
  try {
    const atWork = await store.builds.find({ projectId, status: sandboxBuildStatuses });
    if (atWork === null || atWork.id === buildId || (await isServed(database, projectId))) {
      return await isAllServed(database);
    }
    const { command } = context.hints;
    throw new WavesmithError("conflict", `build ${atWork.id} of the same project was interrupted and comes first`, {
      remedy: `${command(`resume ${atWork.id}`)}, or ${command(`cancel ${atWork.id}`)}`,
    });
  } finally {
    await close();
  }
}

interface Shown {
  readonly view: BuildView;
  readonly shown: ShownPreview | string;
  /** The address at which a `serve` shows it. */
  readonly served: string | null;
}

async function tell(showing: Showing, { view, shown, served }: Shown): Promise<number> {
  const { context, session, buildId, noWait, signal } = showing;
  const { store } = session.app;
  const { waveNumber: wave, sha: commit } = await store.previews.get({ buildId });
  const isShown = typeof shown !== "string";
  if (isShown && served !== null && !context.json) {
    context.out.line(`Preview of wave ${wave}: ${served} (answered ${shown.status}); \`serve\` keeps it running`);
    return exit.ok;
  }
  if (isShown && !context.json) context.out.line(`build ${buildId}, wave ${wave} at ${commit.slice(0, 12)}`);
  await tellPreview({ context, store, buildId, noWait, signal }, shown);
  if (context.json) {
    const health = isShown ? { url: served ?? shown.url, answered: shown.status } : { url: null, reason: shown };
    context.out.json({ buildId, project: view.project, wave, commit, ...health });
  }
  if (isShown) return exit.ok;
  return signal.aborted ? exit.cancelled : exit.failed;
}
