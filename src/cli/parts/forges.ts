// Gives commands access to forges. Like an entry point, it may import everything.

import { openForges } from "../../app/forges.ts";
import type { GitHubConnection } from "../../forge/port.ts";
import { type Config, makeDataDir } from "../parts.ts";

export type { ForgeIdentity, GitHubConnection } from "../../forge/port.ts";

/** How a data directory is signed in to GitHub. */
export const githubConnection = (config: Config): GitHubConnection => openForges(config).github;

/** Prepares to sign a data directory in, which is made if it is missing. */
export function openSignIn(config: Config): GitHubConnection {
  makeDataDir(config);
  return githubConnection(config);
}

/** Serves the pages that make a GitHub App, to browsers of this machine. */
export async function openConnectServer(connection: GitHubConnection, onMade: (name: string) => void) {
  const { startConnectServer } = await import("../../server/connect-github-server.ts");
  return startConnectServer(connection, onMade);
}
