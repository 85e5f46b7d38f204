import { metadataField } from "../../api/build-result.ts";
import { phaseOf } from "../../api/waiting.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { PlanEdit } from "../../coordinator/plan/edited-tasks.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { type Steered, withSteered } from "../builds/open.ts";
import type { SeenBuild } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { isInteractive } from "../driving/answering.ts";
import { driveToEnd, printEnd } from "../driving/drive.ts";
import { readerGone, watchInterrupts } from "../interrupts.ts";
import { exit, exitCodeOf } from "../output/exit-codes.ts";
import { readPlan, requireGit } from "../parts.ts";
import { printPlanFaults } from "../request/plan-faults.ts";
import { requester } from "../request/requester.ts";
import { readPlanForServer } from "../server/sendable-plan.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";

export interface ResumeOptions {
  readonly wait: boolean;
}

/**
 * `resume BUILD`: continues an unfinished build; for a finished one, prints its summary again. With
 * `--plan`, a build that is not running continues with an edited plan.
 */
export async function resume(
  context: Context,
  name: string | undefined,
  options: ResumeOptions & { plan?: string },
): Promise<number> {
  const { plan: file, wait } = options;
  if (file === undefined) {
    return goOn(context, name, { wait, doing: "continuing" }, ({ builds }, { build }) =>
      builds.resume(build.id, { interactive: isInteractive(context) }),
    );
  }
  const isSent = (await context.server()) !== null;
  const { plan, faults, refused } = await (isSent ? readPlanForServer(file) : readPlan(file, context.environment));
  const all = [...faults, ...refused];
  if (plan === null || all.length > 0) {
    printPlanFaults(context, file, all);
    return exit.usage;
  }
  return goOn(context, name, { wait, doing: "continuing with the edited plan" }, async ({ builds }, { build }) => {
    const how = { by: requester(), interactive: isInteractive(context) };
    printEdit(context, await builds.editPlan(build.id, file, how));
    return true;
  });
}

function printEdit(context: Context, { added, again, removed, kept }: PlanEdit): void {
  const list = (what: string, keys: readonly string[]): string[] =>
    keys.length === 0 ? [] : [`${what}: ${keys.join(", ")}`];
  const parts = [...list("new", added), ...list("runs again", again), ...list("kept", kept)];
  context.out.note(`the edited plan: ${parts.join("; ")}`);
  if (removed.length > 0)
    context.warn(`the edited plan no longer has ${removed.join(", ")}: their changes stay in the tree`);
}

/**
 * Opens the session, finds the build and calls `prepare`. If that returns true, drives the build to
 * its end, announced as `doing`; otherwise prints its summary.
 */
export async function goOn(
  context: Context,
  name: string | undefined,
  options: ResumeOptions & { readonly doing: string },
  prepare: (steered: Steered, view: BuildView) => Promise<boolean>,
): Promise<number> {
  if ((await context.server()) === null) await requireGit(await context.config());
  const presenter = createPresenter(context);
  const interrupts = watchInterrupts(process);
  context.out.onClosed(() => interrupts.raise(readerGone));
  try {
    return await withSteered(context, presenter, async (steered) => {
      const { builds } = steered;
      const buildId = await chooseBuild(builds, context, name);
      const { view } = await builds.see(buildId);
      const from = await builds.watch(buildId, "now");
      const goes = await prepare(steered, view);
      printStart(context, presenter, view, goes && view.build.status !== "cancelling" ? options.doing : phaseOf(view));
      if (!goes) {
        from.close();
        return reprintSummary(context, presenter, await builds.see(buildId));
      }
      await builds.requireDriver(view.build.sandboxDriver);
      await builds.drive(view.build);
      return driveToEnd({ context, ...steered, presenter, interrupts, buildId, from, noWait: !options.wait });
    });
  } finally {
    presenter.close();
    interrupts.dispose();
  }
}

function printStart(context: Context, presenter: Presenter, view: BuildView, doing: string): void {
  const { id, projectId } = view.build;
  const started = { type: "build.started", buildId: id, project: view.project, projectId, ...metadataField(view) };
  if (context.json) context.out.json(started);
  else presenter.lines([{ tone: "plain", text: `build ${id}  project ${view.project}  ${doing}` }]);
}

async function reprintSummary(context: Context, presenter: Presenter, seen: SeenBuild): Promise<number> {
  presenter.close();
  const finished = await printEnd(context, seen);
  if (context.json) context.out.json(finished);
  return exitCodeOf(seen.view.build.status);
}
