import { buildFinished, metadataField } from "../../api/build-result.ts";
import { phaseOf } from "../../api/waiting.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds, withSteered } from "../builds/open.ts";
import type { Builds, SeenBuild } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { openAnswering } from "../driving/answering.ts";
import { follow, isOver } from "../driving/follow.ts";
import { type Interrupts, readerGone, watchInterrupts } from "../interrupts.ts";
import { exit, exitCodeOf } from "../output/exit-codes.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";
import { summary } from "../view/summary.ts";

/** About once a second we look whether a process drives the build; a new one may take over. */
const maxLooksAlone = 3;

interface Watching {
  readonly context: Context;
  readonly builds: Builds;
  readonly presenter: Presenter;
  readonly interrupts: Interrupts;
  readonly buildId: string;
}

/**
 * `attach [BUILD]`: shows a build that another process drives, until it ends or waits. Ctrl-C
 * leaves it running. Fails with `conflict` when no process drives it.
 */
export function attach(context: Context, name: string | undefined): Promise<number> {
  return withBuilds(context, "attach", async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    const presenter = createPresenter(context);
    const interrupts = watchInterrupts(process);
    context.out.onClosed(() => interrupts.raise(readerGone));
    interrupts.on((count) => {
      if (count > 1) process.exit(exit.waiting);
    });
    try {
      return await watch({ context, builds, presenter, interrupts, buildId });
    } finally {
      presenter.close();
      interrupts.dispose();
    }
  });
}

async function watch(watching: Watching): Promise<number> {
  const { context, builds, presenter, interrupts, buildId } = watching;
  const { view: first } = await builds.see(buildId);
  printStart(context, presenter, first);
  let alone = 0;
  const until = async (): Promise<boolean> => {
    alone = (await builds.isDriven(first)) ? 0 : alone + 1;
    return interrupts.count > 0 || alone >= maxLooksAlone;
  };
  // The same as `answer` in another terminal: it is rare, so the steering part opens for it alone.
  const answering = openAnswering(watching, (given) =>
    withSteered(context, presenter, async (steered) => {
      await steered.builds.answer(buildId, given);
      return exit.ok;
    }),
  );
  const watch = await builds.watch(buildId, "first");
  const view = await follow({ watch, whole: true, presenter: answering.presenter, until }).finally(answering.close);
  presenter.close();
  if (isOver(view)) return printEnd(context, await builds.see(buildId));
  const { command } = context.hints;
  if (interrupts.count === 0) {
    throw new WavesmithError("conflict", `no process is driving build ${buildId}: it was interrupted`, {
      remedy: command(`resume ${buildId}`),
    });
  }
  context.out.note(
    `build ${buildId} keeps running; to watch it again: ${command(`attach ${buildId}`)}, or cancel it: ${command(`cancel ${buildId}`)}`,
  );
  return exit.waiting;
}

function printStart({ out, json }: Context, presenter: Presenter, view: BuildView): void {
  const { id: buildId, projectId } = view.build;
  const { project } = view;
  if (json) out.json({ type: "build.started", buildId, project, projectId, ...metadataField(view) });
  else presenter.lines([{ tone: "plain", text: `build ${buildId}  project ${project}  ${phaseOf(view)}` }]);
}

/** The process that drives the build delivers it; this one only prints. */
function printEnd({ out, hints, json }: Context, { view, repository, authority, planFile }: SeenBuild): number {
  if (json) out.json(buildFinished(view, repository, planFile));
  else {
    for (const { tone, text } of summary(view, { authority, planFile, hints, now: new Date() })) {
      out.line(out.paint(tone, text));
    }
  }
  return exitCodeOf(view.build.status);
}
