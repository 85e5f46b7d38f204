import { setTimeout as delay } from "node:timers/promises";
import { buildFinished } from "../../api/build-result.ts";
import { phaseOf } from "../../api/waiting.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { SeenBuild, SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import type { Line } from "../view/line.ts";
import { planChoices } from "../view/plan-lines.ts";
import type { Presenter } from "../view/presenter.ts";
import { nextLines } from "../view/summary.ts";
import { follow } from "./follow.ts";

const turnMs = 50;

// One build of a project runs at a time (W3), so a new one may have to wait for an earlier one.

export interface ProjectTurn {
  readonly context: Context;
  readonly builds: SteeredBuilds;
  readonly presenter: Presenter;
  readonly buildId: string;
}

/**
 * Waits until the project's earlier build has ended. Shows that build, and drives it if no other
 * process does. Returns the earlier build if it waits for a person, because that may take for ever.
 * Otherwise returns null: it is this build's turn.
 */
export async function untilItsTurn({ context, builds, presenter, buildId }: ProjectTurn): Promise<SeenBuild | null> {
  for (;;) {
    if ((await builds.status(buildId)) !== "queued") return null;
    const ahead = await builds.ahead(buildId);
    if (ahead !== null) {
      const seen = await builds.see(ahead);
      if (seen.view.build.status === "waiting") return seen;
      const text = `build ${ahead} of this project is not finished and runs first`;
      if (context.json) context.warn(text);
      else presenter.lines([{ tone: "warn", text }]);
      const first = await followAhead({ context, builds, presenter, buildId }, ahead);
      if (first.build.status !== "waiting") {
        const over = `build ${ahead} is ${first.build.status}; now build ${buildId}`;
        presenter.lines([{ tone: "strong", text: over }]);
      }
    }
    await delay(turnMs);
  }
}

async function followAhead({ builds, presenter, buildId }: ProjectTurn, ahead: string): Promise<BuildView> {
  const until = async () => (await builds.status(buildId)) !== "queued";
  const shown: Presenter = {
    ...presenter,
    event: () => undefined,
    view: (before, after) => presenter.view(before, after, `[${ahead}] `),
  };
  return follow({ watch: await builds.watch(ahead, "now"), whole: false, presenter: shown, until });
}

/** Says which decision on the earlier build this one waits for. Returns the exit code. */
export async function tellWaiting(
  { context, builds, presenter, buildId }: ProjectTurn,
  seen: SeenBuild,
): Promise<number> {
  presenter.close();
  const { out, hints, json } = context;
  const { view: ahead, planFile } = seen;
  const resume = hints.command(`resume ${buildId}`);
  const decide: Line[] = planFile === null ? nextLines(ahead, hints) : planChoices(ahead, planFile, hints);
  const { id } = ahead.build;
  if (json) {
    const { view: own, repository } = await builds.see(buildId);
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
