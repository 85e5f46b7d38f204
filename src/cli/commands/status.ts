import { statusJson } from "../../api/build-status.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { deliveredBefore } from "../driving/delivery.ts";
import { exit } from "../output/exit-codes.ts";
import { statusLines } from "../view/status-lines.ts";

/** `status [BUILD]`: shows what a build has done, is doing and is waiting for. */
export function status(context: Context, name: string | undefined): Promise<number> {
  const { out, json, hints } = context;
  return withBuilds(context, "status", async (builds) => {
    const { view, ...facts } = await builds.see(await chooseBuild(builds, context, name));
    const options = { ...facts, hints, now: new Date() };
    if (json) {
      out.json(statusJson(view, options));
      return exit.ok;
    }
    const { authority } = facts;
    const here = authority === null ? null : { context, view, authority: async () => authority };
    const delivered = here === null ? null : await deliveredBefore(here);
    for (const { tone, text } of statusLines(view, { ...options, delivered })) out.line(out.paint(tone, text));
    return exit.ok;
  });
}
