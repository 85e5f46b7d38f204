import { setTimeout as delay } from "node:timers/promises";
import { buildFinished } from "../../api/build-result.ts";
import { phaseOf } from "../../api/waiting.ts";
import {
  type BuildView,
  buildAhead,
  createBuildReader,
  createEventCursor,
} from "../../coordinator/build/read-build.ts";
import type { Context } from "../context.ts";
import type { Session } from "../data/session.ts";
import { exit } from "../output/exit-codes.ts";
import type { Line } from "../view/line.ts";
import { planChoices } from "../view/plan-lines.ts";
import type { Presenter } from "../view/presenter.ts";
import { nextLines } from "../view/summary.ts";
import { follow } from "./follow.ts";
import { waitingPlanFile } from "./waiting-plan.ts";

// One build of a project runs at a time (W3), so a new one may have to wait for an earlier one.

export interface ProjectTurn {
  readonly context: Context;
  readonly session: Session;
  readonly presenter: Presenter;
  readonly buildId: string;
}

/**
 * Waits until the project's earlier build is over. Shows that build, and drives it if no other
 * process does. Returns the earlier build if it waits for a person, because that may take for ever;
 * otherwise null: it is this build's turn.
 */
export async function untilItsTurn({ context, session, presenter, buildId }: ProjectTurn): Promise<BuildView | null> {
  const { store } = session.app;
  const deadline = Date.now() + 60_000;
  for (;;) {
    const build = await store.builds.find({ id: buildId });
    if (build !== null && build.status !== "queued") return null;
    const ahead = build === null ? null : await buildAhead(store, build);
    if (ahead?.status === "waiting") return createBuildReader(store, ahead.id).read();
    if (ahead !== null) {
      const text = `build ${ahead.id} of this project is not finished and runs first`;
      if (context.json) context.warn(text);
      else presenter.lines([{ tone: "warn", text }]);
      const first = await followAhead({ context, session, presenter, buildId }, ahead.id);
      if (first.build.status !== "waiting") {
        const over = `build ${ahead.id} is ${first.build.status}; now build ${buildId}`;
        presenter.lines([{ tone: "strong", text: over }]);
      }
    }
    if (build === null && Date.now() > deadline) {
      throw new Error(`build ${buildId} was requested a minute ago, and the engine has not taken it up`);
    }
    await delay(50);
  }
}

async function followAhead({ session, presenter, buildId }: ProjectTurn, ahead: string): Promise<BuildView> {
  const { store } = session.app;
  const until = async () => (await store.builds.find({ id: buildId }))?.status !== "queued";
  const shown: Presenter = {
    ...presenter,
    event: () => undefined,
    view: (before, after) => presenter.view(before, after, `[${ahead}] `),
  };
  return follow({
    store,
    buildId: ahead,
    from: await createEventCursor(store, ahead, "now"),
    presenter: shown,
    until,
  });
}

/** Says which decision on the earlier build this one waits for. Returns the exit code. */
export async function tellWaiting(
  { context, session, presenter, buildId }: ProjectTurn,
  ahead: BuildView,
): Promise<number> {
  presenter.close();
  const { out, hints, json } = context;
  const planFile = waitingPlanFile(session.config, ahead);
  const resume = hints.command(`resume ${buildId}`);
  const decide: Line[] = planFile === null ? nextLines(ahead, hints) : planChoices(ahead, planFile, hints);
  const { id, projectId } = ahead.build;
  if (json) {
    const own = await createBuildReader(session.app.store, buildId).read();
    const repository = session.app.ports.workspace.repositoryPath(projectId);
    const waitsFor = {
      buildId: id,
      reason: phaseOf(ahead),
      next: decide.map(({ text }) => text.trim()),
      afterwards: resume,
    };
    out.json({ ...buildFinished(own, repository), status: "waiting", waitsFor });
    return exit.waiting;
  }
  const lines: Line[] = [
    {
      tone: "warn",
      text: `build ${buildId} is queued: build ${id} of this project comes first, and ${phaseOf(ahead)}`,
    },
    ...decide,
    { tone: "strong", text: `then: ${resume}, or cancel it: ${hints.command(`cancel ${buildId}`)}` },
    { tone: "plain", text: "to run without waiting, use another project: --project NAME" },
  ];
  for (const { tone, text } of lines) out.line(out.paint(tone, text));
  return exit.waiting;
}
