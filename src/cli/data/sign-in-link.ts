import { spawn } from "node:child_process";
import { type Config, serverKey } from "../parts.ts";

const answerMs = 10_000;

/** Asks a server for a sign-in link; null if no server of this installation answers there. */
export async function askForLink(config: Config, origin: string): Promise<string | null> {
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

/** Opens the system's browser, if there is one; the printed link works in any case. */
export function showInBrowser(url: string): void {
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const browser = spawn(program, [url], { stdio: "ignore", detached: true });
  browser.on("error", () => undefined);
  browser.unref();
}
