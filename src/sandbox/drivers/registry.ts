import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { DriverTraits, SandboxDriver } from "../port.ts";
import { lazyDriver } from "./lazy.ts";

/** The settings from which every driver takes what it needs. */
export interface DriverSettings {
  readonly dataDir: string;
  readonly installationId: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Folders of the host that sandboxes may read. */
  readonly readOnly: readonly string[];
  /** The runtime of the Docker engine for sandboxes; null: the engine's default. */
  readonly dockerRuntime?: string | null;
  readonly logger?: { warn(message: string): void };
  /** How long a guest survives without a request; the guest's own limit when absent. */
  readonly silenceMs?: number;
}

interface DriverEntry {
  readonly traits: DriverTraits;
  /** Imports the driver, so that unused drivers cost nothing. */
  readonly create: (settings: DriverSettings) => Promise<SandboxDriver>;
}

/** Every driver there is. */
const drivers = {
  local: {
    traits: { machine: "host", isolation: "jobs" },
    create: async (settings) => (await import("./local.ts")).createLocalDriver(localOptions(settings, false)),
  },
  docker: {
    traits: { machine: "engine", isolation: "sandboxes" },
    create: async ({ dockerRuntime: runtime = null, ...settings }) =>
      (await import("./docker.ts")).createDockerDriver({ ...settings, runtime }),
  },
  "local-unsafe": {
    traits: { machine: "host", isolation: "none" },
    create: async (settings) => (await import("./local.ts")).createLocalDriver(localOptions(settings, true)),
  },
} satisfies Record<string, DriverEntry>;

export type DriverName = keyof typeof drivers;

export const driverNames = Object.keys(drivers) as readonly DriverName[];

/** The names as a sentence has them: `local, docker or local-unsafe`. */
export const driverChoices = driverNames.join(", ").replace(/, (?=[^,]*$)/, " or ");

/** The driver that isolates nothing, for people who choose it. */
export const unsafeDriver = present(
  driverNames.find((name) => drivers[name].traits.isolation === "none"),
  "a driver without isolation",
);

/** Returns the traits of a driver. A build of another version may have one that we do not know. */
export const traitsOf = (name: string): DriverTraits =>
  driverNames.includes(name as DriverName)
    ? drivers[name as DriverName].traits
    : { machine: "host", isolation: "sandboxes" };

/** Creates a driver that is loaded at its first use. Fails with `unsupported` for another name. */
export function createDriver(name: string, settings: DriverSettings): SandboxDriver {
  requireDriverName(name);
  return lazyDriver(name, () => drivers[name].create(settings));
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
