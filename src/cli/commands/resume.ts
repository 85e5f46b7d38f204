import type { BuildView } from "../../coordinator/read-build.ts";
import { createBuildReader, createEventCursor } from "../../coordinator/read-build.ts";
import type { Context } from "../context.ts";
import { driveToEnd, tellEnd } from "../drive.ts";
import { exitCodeOf } from "../errors.ts";
import { findBuild } from "../find-build.ts";
import { isOver } from "../follow.ts";
import { watchInterrupts } from "../interrupts.ts";
import { repositoryPath, requireDriver } from "../parts.ts";
import { type Session, withSession } from "../session.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";
import { buildFinished } from "../view/result.ts";
import { phaseOf } from "../view/waiting.ts";

export interface ResumeOptions {
  readonly wait: boolean;
}

/** `resume BUILD`: goes on with a build that is not over; of one that is, prints the end again. */
export function resume(context: Context, name: string, options: ResumeOptions): Promise<number> {
  return goOn(context, name, options, async (_session, view) => !isOver(view));
}

/**
 * Opens everything, finds the build and asks `prepare` whether there is something to go on with: then it is driven to
 * its end, else its end is told.
 */
export async function goOn(
  context: Context,
  name: string,
  options: ResumeOptions,
  prepare: (session: Session, view: BuildView) => Promise<boolean>,
): Promise<number> {
  const presenter = createPresenter(context);
  const interrupts = watchInterrupts(process);
  context.out.onClosed(() => interrupts.raise());
  try {
    return await withSession(context, presenter, async (session) => {
      const { store } = session.app;
      const buildId = await findBuild(store, context, name);
      const view = await createBuildReader(store, buildId).read();
      const from = await createEventCursor(store, buildId, "now");
      tellStart(context, presenter, view);
      if (!(await prepare(session, view))) return tellAgain(context, presenter, session, view);
      await requireDriver(session.config, view.build.sandboxDriver);
      await session.drive(view.build.projectId);
      return driveToEnd({ context, session, presenter, interrupts, buildId, from, noWait: !options.wait });
    });
  } finally {
    presenter.close();
    interrupts.dispose();
  }
}

function tellStart(context: Context, presenter: Presenter, view: BuildView): void {
  const { id, projectId } = view.build;
  if (context.json) context.out.json({ type: "build.started", buildId: id, project: view.project, projectId });
  else presenter.lines([{ tone: "plain", text: `build ${id}  project ${view.project}  ${phaseOf(view)}` }]);
}

async function tellAgain(context: Context, presenter: Presenter, session: Session, view: BuildView): Promise<number> {
  presenter.close();
  const repository = await repositoryPath(session.config, view.build.projectId);
  tellEnd(context, view, repository);
  if (context.json) context.out.json(buildFinished(view, repository));
  return exitCodeOf(view.build.status);
}
