import { WavesmithError } from "../../domain/errors.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { readAddress } from "../data/server-address.ts";
import { askForLink, showInBrowser } from "../data/sign-in-link.ts";
import { exit } from "../output/exit-codes.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

/** `open [BUILD]`: prints a link that signs a browser in once, and on a terminal opens it. */
export async function openDashboard(context: Context, build: string | undefined): Promise<number> {
  const server = await serverApi(context);
  const link = server === null ? await ownLink(context) : await linkOf(server);
  const url = build === undefined ? link : `${link}&to=${encodeURIComponent(`/builds/${await idOf(context, build)}`)}`;
  if (context.json) context.out.json({ url });
  else context.out.line(url);
  context.out.note("this link works once, for five minutes");
  if (context.out.live && !context.json) showInBrowser(url);
  return exit.ok;
}

async function ownLink(context: Context): Promise<string> {
  const config = await context.config();
  const origin = await readAddress(config.dataDir);
  const link = origin === null ? null : await askForLink(config, origin);
  if (link !== null) return link;
  throw new WavesmithError("environment", `no server for ${config.dataDir} answers`, {
    remedy: `start one: ${context.hints.command("serve")}`,
  });
}

async function linkOf({ url, key, api, ask }: ServerApi): Promise<string> {
  // The server refuses this like any wrong key, and says so.
  const { path } = await ask(api.POST("/api/v1/session/link", { body: { key: key ?? "none" } }));
  return `${url}${path}`;
}

/** Returns the whole id of a build that is named by its beginning. Fails with `not-found`. */
async function idOf(context: Context, name: string): Promise<string> {
  let id = name;
  await withBuilds(context, "open", async (builds) => {
    id = await chooseBuild(builds, context, name);
    return exit.ok;
  });
  return id;
}
