import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import { createCredentialReader } from "../forge/credential-file.ts";
import type { Forges } from "../forge/port.ts";
import { createForges } from "../forge/registry.ts";
import type { GitHubCredential } from "../forge/settings.ts";

/** Opens the forges with the credential of the settings, otherwise with the stored one. */
export function openForges(config: Config, now: () => Date = () => new Date()): Forges {
  const { dataDir, environment, github, engine } = config;
  const { apiUrl, webUrl } = github;
  const fixed = settingsCredential(config);
  const stored = createCredentialReader(dataDir);
  const credential = fixed === null ? stored : () => fixed;
  // A faulty credential fails at the start, not at the first delivery.
  credential();
  const publicUrl = isPublic(engine.serveOrigin) ? engine.serveOrigin : null;
  return createForges({
    github: { apiUrl, webUrl, credential, dataDir, isFixed: fixed !== null, publicUrl, now },
    folder: join(dataDir, "forge"),
    environment,
  });
}

function settingsCredential({ github: { token, app } }: Config): GitHubCredential | null {
  if (token !== null) return { kind: "token", token };
  if (app === null) return null;
  return { kind: "app", appId: app.id, privateKey: readFileSync(app.keyFile, "utf8") };
}

/** Whether others may reach an address, as GitHub demands of the address of a webhook. */
const isPublic = (origin: string | null): boolean =>
  origin !== null && !/^(localhost|.*\.localhost|127\..*|\[::1\])$/.test(new URL(origin).hostname);
