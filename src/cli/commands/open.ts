import { spawn } from "node:child_process";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { readAddress } from "../data/server-address.ts";
import { exit } from "../output/exit-codes.ts";
import { type Config, serverKey } from "../parts.ts";

const answerMs = 10_000;

/** `open [BUILD]`: prints a link that signs a browser in once, and on a terminal opens it. */
export async function openDashboard(context: Context, build: string | undefined): Promise<number> {
  const config = await context.config();
  const origin = await readAddress(config.dataDir);
  const link = origin === null ? null : await askForLink(config, origin);
  if (link === null)
    throw new WavesmithError("environment", `no server of ${config.dataDir} answers`, {
      remedy: `start one: ${context.hints.command("serve")}`,
    });
  const url = build === undefined ? link : `${link}&to=${encodeURIComponent(`/builds/${build}`)}`;
  if (context.json) context.out.json({ url });
  else context.out.line(url);
  context.out.note("this link works once, for five minutes");
  if (context.out.live && !context.json) showInBrowser(url);
  return exit.ok;
}

/** Asks a server for a sign-in link; null if none of ours answers there. */
async function askForLink(config: Config, origin: string): Promise<string | null> {
  const key = config.serveKey ?? (await serverKey(config)).key;
  const answer = await fetch(`${origin}/api/v1/session/link`, {
    method: "POST",
    body: JSON.stringify({ key }),
    signal: AbortSignal.timeout(answerMs),
  }).catch(() => null); // A killed server leaves its address behind.
  if (answer?.status !== 201) return null;
  const { path } = (await answer.json()) as { path: string };
  return `${origin}${path}`;
}

/** Opens the system's browser, if there is one; the printed link works at any rate. */
function showInBrowser(url: string): void {
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const browser = spawn(program, [url], { stdio: "ignore", detached: true });
  browser.on("error", () => undefined);
  browser.unref();
}
