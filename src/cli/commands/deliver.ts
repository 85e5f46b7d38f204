import { createBuildReader } from "../../coordinator/build/read-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { withStore } from "../data/reading.ts";
import { type DeliverOptions, deliverBuild } from "../driving/delivery.ts";
import { exit } from "../output/exit-codes.ts";
import { authorityPath, requireGit } from "../parts.ts";

/** `deliver [BUILD]`: puts what a build made on a branch of your repository. Safe to repeat. */
export function deliver(context: Context, name: string | undefined, options: DeliverOptions): Promise<number> {
  if (options.squash && options.asMe) {
    throw new WavesmithError("usage", "--squash and --as-me exclude each other: a squashed commit is yours anyway", {
      remedy: "use one of them",
    });
  }
  const { out, json } = context;
  return withStore(context, "deliver", {
    read: async ({ store, config }) => {
      await requireGit(config);
      const buildId = await findBuildOrLatest(store, context, name);
      const view = await createBuildReader(store, buildId).read();
      const authority = await authorityPath(config, view.build.projectId);
      const { lines, ...delivery } = await deliverBuild({ context, view, authority }, options);
      if (json) out.json({ buildId, ...delivery });
      else for (const { tone, text } of lines) out.line(out.paint(tone, text));
      return exit.ok;
    },
  });
}
