import type { BuildView } from "../../coordinator/build/build-view.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withSteered } from "../builds/open.ts";
import type { SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { printEnd } from "../driving/drive.ts";
import { follow } from "../driving/follow.ts";
import { exit } from "../output/exit-codes.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";

/** `cancel BUILD`: cancels a build wherever it runs and returns when its work is kept. */
export async function cancel(context: Context, name: string | undefined): Promise<number> {
  const presenter = createPresenter(context);
  try {
    return await withSteered(context, presenter, ({ builds }) => end(context, builds, presenter, name));
  } finally {
    presenter.close();
  }
}

async function end(
  context: Context,
  builds: SteeredBuilds,
  presenter: Presenter,
  name: string | undefined,
): Promise<number> {
  const buildId = await chooseBuild(builds, context, name);
  const asked = await builds.cancel(buildId, "cancelled with `wavesmith cancel`");
  const { view: before } = await builds.see(buildId);
  const { status } = before.build;
  if (!asked) {
    if (context.json) context.out.json({ buildId, status });
    else context.out.line(`build ${buildId} is ${status} already`);
    return exit.ok;
  }
  if (status === "cancelling") presenter.phase("stopping the agents and keeping their work");
  const view = await untilCancelled(builds, presenter, before);
  presenter.close();
  if (context.json) context.out.json({ buildId, status: view.build.status });
  else await printEnd(context, await builds.see(buildId));
  return view.build.status === "cancelled" ? exit.ok : exit.failed;
}

/** The process that drives the build cancels it; if there is none (any more), this process does. */
async function untilCancelled(builds: SteeredBuilds, presenter: Presenter, before: BuildView): Promise<BuildView> {
  const { id } = before.build;
  const until = async (): Promise<boolean> => {
    if (!(await builds.isDriven(before))) await builds.drive(before.build);
    return false;
  };
  await until();
  const quiet = { event: () => undefined, view: () => undefined, warn: presenter.warn };
  return follow({ watch: await builds.watch(id, "now"), whole: true, presenter: quiet, until });
}
