import { WavesmithError } from "../../domain/errors.ts";
import { type Context, refuseServer } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { withStore } from "../data/reading.ts";
import { readAddress } from "../data/server-address.ts";
import { askForLink, showInBrowser } from "../data/sign-in-link.ts";
import { exit } from "../output/exit-codes.ts";

/** `open [BUILD]`: prints a link that signs a browser in once, and on a terminal opens it. */
export async function openDashboard(context: Context, build: string | undefined): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  const origin = await readAddress(config.dataDir);
  const link = origin === null ? null : await askForLink(config, origin);
  if (link === null)
    throw new WavesmithError("environment", `no server of ${config.dataDir} answers`, {
      remedy: `start one: ${context.hints.command("serve")}`,
    });
  const url = build === undefined ? link : `${link}&to=${encodeURIComponent(`/builds/${await idOf(context, build)}`)}`;
  if (context.json) context.out.json({ url });
  else context.out.line(url);
  context.out.note("this link works once, for five minutes");
  if (context.out.live && !context.json) showInBrowser(url);
  return exit.ok;
}

/** Returns the whole id of a build that is named by its beginning. Fails with `not-found`. */
async function idOf(context: Context, name: string): Promise<string> {
  let id = name;
  await withStore(context, "open", {
    async read({ store }) {
      id = await findBuildOrLatest(store, context, name);
      return exit.ok;
    },
  });
  return id;
}
