import { type BuildView, buildAhead, createEventCursor, type EventCursor } from "../coordinator/build/read-build.ts";
import { isDiskFull } from "../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { type AnswerKeys, createAnswerKeys } from "./answer-keys.ts";
import type { Context } from "./context.ts";
import { exit, exitCodeOf } from "./errors.ts";
import { follow } from "./follow.ts";
import type { Interrupts } from "./interrupts.ts";
import { type ShownPreview, showPreview, watchPreview } from "./preview.ts";
import { requester } from "./requester.ts";
import type { Session } from "./session.ts";
import type { Presenter } from "./view/presenter.ts";
import { buildFinished } from "./view/result.ts";
import { summary } from "./view/summary.ts";
import { waitingPlanFile } from "./waiting-plan.ts";

export interface DriveOptions {
  readonly context: Context;
  readonly session: Session;
  readonly presenter: Presenter;
  readonly interrupts: Interrupts;
  readonly buildId: string;
  /** Where to start reporting: from the beginning, or after this cursor. */
  readonly from: "first" | EventCursor;
  /** Exits when the build ends, even if it has a preview. */
  readonly noWait: boolean;
}

/** Drives a stored build to its end, shows it, and returns the exit code. Ctrl-C cancels it. */
export async function driveToEnd(options: DriveOptions): Promise<number> {
  const { context, session, presenter, interrupts } = options;
  let end: { code: number; interrupts: number } | null = null;
  let giveUp: (error: unknown) => void = () => undefined;
  const interrupted = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  interrupts.on((count) => {
    // After the build, the first Ctrl-C ends the preview and the second skips the cleanup.
    if (end !== null && ++end.interrupts > 1) process.exit(end.code);
    if (end !== null) return;
    if (count > 1) return leave(options);
    untilFull(options).catch(giveUp);
    void cancel(options).catch((error: unknown) => {
      if (!isDiskFull(error)) presenter.warn(messageOf(error));
    });
  });
  const view = await Promise.race([interrupted, shown(options)]);
  const code = exitCodeOf(view.build.status);
  end = { code, interrupts: 0 };
  presenter.close();
  await finish(options, view, interrupts.count > 0);
  end = { code, interrupts: 1 };
  if (context.json) {
    const repository = session.app.ports.workspace.repositoryPath(view.build.projectId);
    context.out.json(buildFinished(view, repository, waitingPlanFile(session.config, view)));
  }
  return code;
}

async function shown(options: DriveOptions): Promise<BuildView> {
  const { session, presenter, buildId, from } = options;
  await untilItsTurn(options);
  const keys = answerKeys(options);
  const watched: Presenter = {
    ...presenter,
    view(before, after, label) {
      keys?.look(after);
      presenter.view(before, after, label);
    },
  };
  try {
    return await follow({ store: session.app.store, buildId, from, presenter: watched });
  } finally {
    keys?.close();
  }
}

/** Whether a person sees the agents' questions and can answer them by key. */
export const isInteractive = ({ out, json }: Context): boolean => out.live && !json && process.stdin.isTTY === true;

function answerKeys({ context, session, presenter, interrupts, buildId }: DriveOptions): AnswerKeys | null {
  if (!isInteractive(context)) return null;
  const { ports, store } = session.app;
  // A closed terminal is reported by its signal.
  process.stdin.on("error", () => undefined);
  return createAnswerKeys(process.stdin, {
    async answer(number, answer) {
      const { answerQuestion } = await import("../coordinator/attempt/questions.ts");
      await answerQuestion(ports, await store.builds.get({ id: buildId }), { number, answer, by: requester() });
    },
    interrupted: () => interrupts.raise(),
    warn: (message) => presenter.warn(message),
  });
}

const cancelMs = 4_000;

/** Watches a cancel: rejects if a full disk keeps it from being recorded; never resolves. */
async function untilFull({ session, buildId }: DriveOptions): Promise<never> {
  for (;;) {
    await new Promise((wake) => setTimeout(wake, cancelMs).unref());
    const trouble = session.app.diskTrouble();
    if (trouble === null) continue;
    throw new WavesmithError("environment", `${trouble}: the build is interrupted and its agents are stopped`, {
      remedy: `free some space, then continue it: wavesmith resume ${buildId}`,
      cause: new Error("no space left on device"),
    });
  }
}

/** Prints the summary of a finished build, as `build` did. */
export function tellEnd(context: Context, view: BuildView, repository: string, planFile: string | null = null): void {
  const { out, hints } = context;
  if (context.json) return;
  for (const { tone, text } of summary(view, { repository, planFile, hints, now: new Date() }))
    out.line(out.paint(tone, text));
}

async function cancel({ session, presenter, interrupts, buildId }: DriveOptions): Promise<void> {
  const text = "cancelling: stopping the agents and keeping their work… (Ctrl-C again quits at once)";
  presenter.lines([{ tone: "warn", text }]);
  const { requestCancel } = await import("../coordinator/build/cancel-build.ts");
  const { app } = session;
  // The request may not have become a build yet.
  while ((await app.store.builds.find({ id: buildId })) === null) await new Promise((wake) => setTimeout(wake, 50));
  await requestCancel(app.ports, buildId, `cancelled with ${interrupts.cause}`);
  await app.reconcile();
}

function leave({ context, presenter, buildId }: DriveOptions): never {
  presenter.close();
  const again = context.hints.command(`resume ${buildId}`);
  context.out.note(`quit at once: agents may still be running. To finish cancelling: ${again}`);
  process.exit(exit.cancelled);
}

/**
 * A build waits until the project's earlier build is over. Shows that build, and drives it if no
 * other process does.
 */
async function untilItsTurn({ context, session, presenter, buildId }: DriveOptions): Promise<void> {
  const { store } = session.app;
  const deadline = Date.now() + 60_000;
  for (;;) {
    const build = await store.builds.find({ id: buildId });
    if (build !== null && build.status !== "queued") return;
    const ahead = build === null ? null : await buildAhead(store, build);
    if (ahead !== null) {
      const text = `build ${ahead.id} of this project is not finished and runs first`;
      if (context.json) context.warn(text);
      else presenter.lines([{ tone: "warn", text }]);
      const until = async () => (await store.builds.find({ id: buildId }))?.status !== "queued";
      const shown: Presenter = {
        ...presenter,
        event: () => undefined,
        view: (before, after) => presenter.view(before, after, `[${ahead.id}] `),
      };
      const from = await createEventCursor(store, ahead.id, "now");
      const { build: first } = await follow({ store, buildId: ahead.id, from, presenter: shown, until });
      presenter.lines([{ tone: "strong", text: `build ${first.id} is ${first.status}; now build ${buildId}` }]);
    }
    if (build === null && Date.now() > deadline) {
      throw new Error(`build ${buildId} was requested a minute ago, and the engine has not taken it up`);
    }
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

/** Prints the summary and shows a completed build's preview, on a terminal until Ctrl-C. */
async function finish(options: DriveOptions, view: BuildView, interrupted: boolean): Promise<void> {
  const { context, session, interrupts, buildId } = options;
  const repository = session.app.ports.workspace.repositoryPath(view.build.projectId);
  tellEnd(context, view, repository, waitingPlanFile(session.config, view));
  if (view.build.status !== "completed" || view.build.plan.preview === null) return;
  const stopping = new AbortController();
  interrupts.on(() => stopping.abort());
  if (interrupted) stopping.abort();
  const preview = await showPreview(session.app, view, stopping.signal);
  try {
    await look(options, preview, stopping.signal);
  } finally {
    if (typeof preview !== "string") await preview.close();
    const { stopPreview } = await import("../coordinator/preview/preview.ts");
    await stopPreview(session.app.ports, buildId, "the command that showed it ended");
  }
}

async function look(options: DriveOptions, preview: ShownPreview | string, signal: AbortSignal): Promise<void> {
  const { out, json } = options.context;
  const say = (text: string): void => (json ? out.note(text) : out.line(text));
  if (typeof preview === "string") {
    say(out.paint("warn", `Preview: not shown: ${preview}`));
    return;
  }
  const stays = out.live && !json && !options.noWait;
  if (!stays) {
    say(`Preview answered ${preview.status} at ${preview.url}; it stopped when this command ended`);
    out.note("On a terminal, without --no-wait, it stays until Ctrl-C.");
    return;
  }
  say(`Preview: ${out.paint("accent", preview.url)} (answered ${preview.status})`);
  say(out.paint("dim", "It stays until Ctrl-C."));
  const { store } = options.session.app;
  const find = () => store.previews.find({ buildId: options.buildId });
  const gone = await watchPreview({ find, say: (text) => say(out.paint("dim", text)), signal });
  say(gone === null ? "\nstopping the preview" : out.paint("warn", `preview stopped: ${gone}`));
}
