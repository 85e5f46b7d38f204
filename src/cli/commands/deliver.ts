import { WavesmithError } from "../../domain/errors.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { requireBuilds } from "../data/find-build.ts";
import { type DeliverOptions, deliverBuild } from "../driving/delivery.ts";
import { exit } from "../output/exit-codes.ts";
import { requireGit } from "../parts.ts";

/** `deliver [BUILD]`: puts what a build made on a branch of your repository. Safe to repeat. */
export async function deliver(context: Context, name: string | undefined, options: DeliverOptions): Promise<number> {
  if (options.squash && options.asMe) {
    throw new WavesmithError(
      "usage",
      "--squash and --as-me cannot be used together: a squashed commit is yours anyway",
      {
        remedy: "use one of them",
      },
    );
  }
  const { out, json } = context;
  if ((await context.server()) === null) await requireBuilds(context);
  return withBuilds(context, "deliver", async (builds) => {
    await requireGit(await context.config());
    const { view, authority } = await builds.see(await chooseBuild(builds, context, name));
    const deliverable = {
      ...{ context, view, isElsewhere: authority === null },
      authority: (repository: Parameters<typeof builds.fetchResult>[1]) => builds.fetchResult(view, repository),
    };
    const { lines, ...delivery } = await deliverBuild(deliverable, options);
    if (json) out.json({ buildId: view.build.id, ...delivery });
    else for (const { tone, text } of lines) out.line(out.paint(tone, text));
    return exit.ok;
  });
}
