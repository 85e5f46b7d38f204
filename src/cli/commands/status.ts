import { statusJson } from "../../api/build-status.ts";
import { createBuildReader } from "../../coordinator/build/read-build.ts";
import { movingBuildStatuses } from "../../domain/status.ts";
import { isAllServed, isServed } from "../../store/serving.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { withStore } from "../data/reading.ts";
import { deliveredBefore } from "../driving/delivery.ts";
import { waitingPlanFile } from "../driving/waiting-plan.ts";
import { exit } from "../output/exit-codes.ts";
import { authorityPath } from "../parts.ts";
import { statusLines } from "../view/status-lines.ts";

/** `status [BUILD]`: shows what a build has done, is doing and waits for. */
export function status(context: Context, name: string | undefined): Promise<number> {
  const { out, json, hints } = context;
  return withStore(context, "status", {
    read: async ({ store, database, config }) => {
      const buildId = await findBuildOrLatest(store, context, name);
      const view = await createBuildReader(store, buildId).read();
      const goesOn = movingBuildStatuses.includes(view.build.status);
      const interrupted = goesOn && !(await isServed(database, view.build.projectId));
      const repository = await authorityPath(config, view.build.projectId);
      const planFile = waitingPlanFile(config, view);
      const shows = view.preview !== null && (await isAllServed(database));
      const options = { interrupted, isServed: shows, repository, planFile, hints, now: new Date() };
      if (json) {
        out.json(statusJson(view, options));
        return exit.ok;
      }
      const delivered = await deliveredBefore({ context, view, authority: repository });
      for (const { tone, text } of statusLines(view, { ...options, delivered })) out.line(out.paint(tone, text));
      return exit.ok;
    },
  });
}
