import type { ForgeName } from "../domain/forge.ts";
import { createClients } from "./github/client.ts";
import { type ConnectionOptions, createConnection } from "./github/connection.ts";
import { createGitHub } from "./github/github.ts";
import { createLocalForge } from "./local.ts";
import type { Forge, Forges } from "./port.ts";

export interface ForgeOptions {
  readonly github: Omit<ConnectionOptions, "clients">;
  /** The local forge's repositories. */
  readonly folder: string;
  /** PATH, proxies and certificates for git. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Lists every forge. To add one, write its file and add a line here. */
export function createForges({ github, folder, environment }: ForgeOptions): Forges {
  const clients = createClients(github);
  const forges: Readonly<Record<ForgeName, Forge>> = {
    local: createLocalForge(folder, environment),
    github: createGitHub(github, clients, environment),
  };
  return {
    forge: (name) => forges[name],
    github: createConnection({ ...github, clients }),
    async gitEnvironment(url) {
      for (const forge of Object.values(forges)) {
        const env = await forge.gitEnvironment(url);
        if (Object.keys(env).length > 0) return env;
      }
      return {};
    },
    secrets: () => clients.secrets(),
  };
}
