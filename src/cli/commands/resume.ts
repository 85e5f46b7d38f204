import { metadataField } from "../../api/build-result.ts";
import { phaseOf } from "../../api/waiting.ts";
import type { BuildView } from "../../coordinator/build/read-build.ts";
import { createBuildReader, createEventCursor } from "../../coordinator/build/read-build.ts";
import type { PlanEdit } from "../../coordinator/plan/edited-tasks.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest, requireBuilds } from "../data/find-build.ts";
import { type Session, withSession } from "../data/session.ts";
import { driveToEnd, isInteractive, printEnd } from "../driving/drive.ts";
import { isOver } from "../driving/follow.ts";
import { readerGone, watchInterrupts } from "../interrupts.ts";
import { exit, exitCodeOf } from "../output/exit-codes.ts";
import { readPlan, requireDriver, requireGit } from "../parts.ts";
import { printPlanFaults } from "../request/plan-faults.ts";
import { requester } from "../request/requester.ts";
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
    return goOn(context, name, { wait, doing: "continuing" }, async ({ app }, view) => {
      if (view.build.status !== "waiting") return !isOver(view);
      const { resumeWaiting } = await import("../../coordinator/build/resume-build.ts");
      return resumeWaiting(app.ports, view.build.id);
    });
  }
  const { plan, faults, refused } = await readPlan(file, context.environment);
  const all = [...faults, ...refused];
  if (plan === null || all.length > 0) {
    printPlanFaults(context, file, all);
    return exit.usage;
  }
  return goOn(context, name, { wait, doing: "continuing with the edited plan" }, async ({ app }, { build }) => {
    const { editPlan } = await import("../../coordinator/plan/edit-plan.ts");
    const { refuseWithoutModels } = await import("../../coordinator/plan/plan-models.ts");
    refuseWithoutModels(app.ports.models, plan);
    const edit = await editPlan(app.ports, build.id, plan, requester());
    printEdit(context, edit);
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
  prepare: (session: Session, view: BuildView) => Promise<boolean>,
): Promise<number> {
  await requireGit(await context.config());
  await requireBuilds(context);
  const presenter = createPresenter(context);
  const interrupts = watchInterrupts(process);
  context.out.onClosed(() => interrupts.raise(readerGone));
  try {
    return await withSession(context, presenter, async (session) => {
      const { store } = session.app;
      const buildId = await findBuildOrLatest(store, context, name);
      const view = await createBuildReader(store, buildId).read();
      const from = await createEventCursor(store, buildId, "now");
      const goes = await prepare(session, view);
      printStart(context, presenter, view, goes && view.build.status !== "cancelling" ? options.doing : phaseOf(view));
      if (!goes) return reprintSummary(context, presenter, session, view);
      await requireDriver(session.config, view.build.sandboxDriver);
      // From now on, the build's agents ask the person who resumed it.
      await store.builds.update({ id: buildId }, { interactive: isInteractive(context) });
      await session.drive(view.build.projectId);
      return driveToEnd({ context, session, presenter, interrupts, buildId, from, noWait: !options.wait });
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

async function reprintSummary(
  context: Context,
  presenter: Presenter,
  session: Session,
  view: BuildView,
): Promise<number> {
  presenter.close();
  const finished = await printEnd({ context, config: session.config, view });
  if (context.json) context.out.json(finished);
  return exitCodeOf(view.build.status);
}
