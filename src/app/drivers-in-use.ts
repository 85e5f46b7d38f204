import type { Ports } from "../coordinator/port.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { previewPlaceOf } from "../domain/sandbox/sandbox.ts";
import { createDriver, type DriverSettings } from "../sandbox/drivers/registry.ts";
import type { SandboxDriver } from "../sandbox/port.ts";
import type { AppOptions } from "./options.ts";

export interface DriversInUse {
  readonly driver: Ports["driver"];
  abandon(projectId: ProjectId): Promise<void>;
  /**
   * From now on starts no sandbox. A step that outlives the engine's grace would otherwise start
   * one that nobody watches.
   */
  close(): Promise<void>;
  /** Calls `listener` for every driver that is in use here, and for each one that is used later. */
  onDriverUse(listener: (name: string) => void): void;
}

export function createDriversInUse(options: AppOptions, installationId: string): DriversInUse {
  const { config, warn, orphanLimitMs } = options;
  const settings: DriverSettings = {
    dataDir: config.dataDir,
    installationId,
    environment: config.environment,
    readOnly: config.sandboxReadOnly,
    dockerRuntime: config.dockerRuntime,
    logger: { warn },
    ...(orphanLimitMs === undefined ? {} : { silenceMs: orphanLimitMs }),
  };
  const driversByName = new Map<string, SandboxDriver>();
  let refusal: string | null = null;
  let onDriverUse: (name: string) => void = () => undefined;
  const driver = (name: string): SandboxDriver => {
    const existing = driversByName.get(name);
    if (existing !== undefined) return existing;
    const plain = createDriver(name, settings);
    const ensure: SandboxDriver["ensure"] = async (spec) => {
      if (refusal === null) return plain.ensure(spec);
      throw new WavesmithError("sandbox-unavailable", `${refusal}, so no sandbox is started`);
    };
    driversByName.set(name, { ...plain, ensure });
    onDriverUse(name);
    return { ...plain, ensure };
  };
  return {
    driver,
    onDriverUse(listener) {
      onDriverUse = listener;
      for (const name of driversByName.keys()) listener(name);
    },
    async close() {
      refusal ??= "this process is ending";
    },
    async abandon(projectId: ProjectId): Promise<void> {
      refusal = "the build is being interrupted";
      for (const one of driversByName.values())
        for (const place of [projectId, previewPlaceOf(projectId)]) {
          // The guest ends its jobs and itself without writing anything. `stop` cleans up the rest,
          // but has to wait for a lock.
          const endpoint = await one.find(place).catch(() => null);
          await endpoint?.guest
            .shutdown()
            .catch((error: unknown) => warn(`the guest did not stop: ${messageOf(error)}`));
          await one.stop(place).catch((error: unknown) => warn(messageOf(error)));
        }
    },
  };
}
