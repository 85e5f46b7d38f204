import type { BuildView } from "../../coordinator/build/read-build.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { isServed } from "../../store/serving.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest, requireBuilds } from "../data/find-build.ts";
import { type Session, withSession } from "../data/session.ts";
import { printEnd } from "../driving/drive.ts";
import { follow } from "../driving/follow.ts";
import { exit } from "../output/exit-codes.ts";
import { openStore } from "../parts.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";

/** `cancel BUILD`: cancels a build wherever it runs and returns when its work is kept. */
export async function cancel(context: Context, name: string | undefined): Promise<number> {
  await requireBuilds(context);
  const presenter = createPresenter(context);
  try {
    return await withSession(context, presenter, (session) => end(context, session, presenter, name));
  } finally {
    presenter.close();
  }
}

async function end(
  context: Context,
  session: Session,
  presenter: Presenter,
  name: string | undefined,
): Promise<number> {
  const { store, ports } = session.app;
  const buildId = await findBuildOrLatest(store, context, name);
  const { requestCancel } = await import("../../coordinator/build/stop/cancel-build.ts");
  const asked = await requestCancel(ports, buildId, "cancelled with `wavesmith cancel`");
  const { projectId, status } = await store.builds.get({ id: buildId });
  if (!asked) {
    if (context.json) context.out.json({ buildId, status });
    else context.out.line(`build ${buildId} is ${status} already`);
    return exit.ok;
  }
  if (status === "cancelling") presenter.phase("stopping the agents and keeping their work");
  const view = await untilCancelled(session, presenter, { buildId, projectId });
  presenter.close();
  if (context.json) context.out.json({ buildId, status: view.build.status });
  else await printEnd({ context, config: session.config, view });
  return view.build.status === "cancelled" ? exit.ok : exit.failed;
}

/** The process that drives the build cancels it; if there is none (any more), this process does. */
async function untilCancelled(
  session: Session,
  presenter: Presenter,
  { buildId, projectId }: { buildId: string; projectId: ProjectId },
): Promise<BuildView> {
  const { database, close } = await openStore(session.config, "cancel");
  try {
    if (!(await isServed(database, projectId))) await session.drive(projectId);
    const until = async (): Promise<boolean> => {
      if (!(await isServed(database, projectId))) await session.drive(projectId);
      return false;
    };
    const quiet = { event: () => undefined, view: () => undefined, warn: presenter.warn };
    return await follow({ store: session.app.store, buildId, from: "first", presenter: quiet, until });
  } finally {
    await close();
  }
}
