import type { ForgeName } from "../domain/forge.ts";
import { createGitHub } from "./github/github.ts";
import { createLocalForge } from "./local.ts";
import type { Forge, Forges } from "./port.ts";
import type { GitHubSettings } from "./settings.ts";

export interface ForgeOptions {
  readonly github: GitHubSettings;
  /** The local forge's repositories. */
  readonly folder: string;
  /** PATH, proxies and certificates for git. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Lists every forge. To add one, write its file and add a line here. */
export function createForges({ github, folder, environment }: ForgeOptions): Forges {
  const hub = createGitHub(github, environment);
  const forges: Readonly<Record<ForgeName, Forge>> = {
    local: createLocalForge(folder, environment),
    github: hub,
  };
  return {
    forge: (name) => forges[name],
    async gitEnvironment(url) {
      for (const forge of Object.values(forges)) {
        const env = await forge.gitEnvironment(url);
        if (Object.keys(env).length > 0) return env;
      }
      return {};
    },
    secrets: () => hub.secrets(),
  };
}
