import { WavesmithError } from "../../domain/errors.ts";
import type { SandboxDriver } from "../port.ts";
import { lazyDriver } from "./lazy.ts";

/** The settings from which every driver takes what it needs. */
export interface DriverSettings {
  readonly dataDir: string;
  readonly installationId: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Folders of the host that sandboxes may read. */
  readonly readOnly: readonly string[];
  readonly logger?: { warn(message: string): void };
  /** How long a guest survives without a request; the guest's own limit when absent. */
  readonly silenceMs?: number;
}

type DriverFactory = (settings: DriverSettings) => Promise<SandboxDriver>;

/** Every driver there is. A factory imports its driver, so that unused drivers cost nothing. */
const factories = {
  local: async (settings) => (await import("./local.ts")).createLocalDriver(localOptions(settings, false)),
  docker: async (settings) => (await import("./docker.ts")).createDockerDriver(settings),
  "local-unsafe": async (settings) => (await import("./local.ts")).createLocalDriver(localOptions(settings, true)),
} satisfies Record<string, DriverFactory>;

export type DriverName = keyof typeof factories;

export const driverNames = Object.keys(factories) as readonly DriverName[];

/** The names as a sentence has them: `local, docker or local-unsafe`. */
export const driverChoices = driverNames.join(", ").replace(/, (?=[^,]*$)/, " or ");

/** Creates a driver that is loaded at its first use. Fails with `unsupported` for another name. */
export function createDriver(name: string, settings: DriverSettings): SandboxDriver {
  requireDriverName(name);
  return lazyDriver(name, () => factories[name](settings));
}

/** Fails with `unsupported` when there is no driver of this name. */
export function requireDriverName(name: string): asserts name is DriverName {
  if ((driverNames as readonly string[]).includes(name)) return;
  throw new WavesmithError("unsupported", `there is no sandbox driver ${name} in this version`, {
    remedy: `use --sandbox ${driverNames.join(" or --sandbox ")}`,
  });
}

function localOptions({ environment, ...settings }: DriverSettings, unsafe: boolean) {
  return { ...settings, unsafe, env: { PATH: environment.PATH ?? "", HOME: environment.HOME ?? "" } };
}
