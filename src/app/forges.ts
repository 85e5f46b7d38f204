import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../config.ts";
import { readCredential } from "../forge/credential-file.ts";
import type { Forges } from "../forge/port.ts";
import { createForges } from "../forge/registry.ts";
import type { GitHubCredential } from "../forge/settings.ts";

/** Opens the forges with the settings' credentials, or else with those of the data directory. */
export async function openForges(config: Config): Promise<Forges> {
  const { dataDir, environment, github } = config;
  const credential = (await settingsCredential(config)) ?? (await readCredential(dataDir));
  const { apiUrl, webUrl } = github;
  return createForges({ github: { apiUrl, webUrl, credential }, folder: join(dataDir, "forge"), environment });
}

async function settingsCredential({ github: { token, app } }: Config): Promise<GitHubCredential | null> {
  if (token !== null) return { kind: "token", token };
  if (app === null) return null;
  return { kind: "app", appId: app.id, privateKey: await readFile(app.keyFile, "utf8") };
}
