// Gives commands access to forges. Like an entry point, it may import everything.

import { mkdir } from "node:fs/promises";
import { openForges } from "../../app/forges.ts";
import { writeCredential } from "../../forge/credential-file.ts";
import type { ForgeIdentity } from "../../forge/port.ts";
import { createForges } from "../../forge/registry.ts";
import type { GitHubCredential } from "../../forge/settings.ts";
import type { Config } from "../parts.ts";

/** Asks GitHub whose credential is in use. */
export async function githubIdentity(config: Config): Promise<ForgeIdentity> {
  return (await openForges(config)).forge("github").identify();
}

/**
 * Checks a credential with GitHub and stores it if it is valid. Returns its identity and where it
 * was stored.
 */
export async function storeCredential(
  config: Config,
  credential: GitHubCredential,
): Promise<{ identity: ForgeIdentity; path: string }> {
  const { dataDir, environment } = config;
  const { apiUrl, webUrl } = config.github;
  const forges = createForges({ github: { apiUrl, webUrl, credential }, folder: dataDir, environment });
  const identity = await forges.forge("github").identify();
  await mkdir(dataDir, { recursive: true });
  return { identity, path: await writeCredential(dataDir, credential) };
}
