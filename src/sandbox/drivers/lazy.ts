import type { SandboxDriver } from "../port.ts";

/** Wraps a driver that is loaded at its first use, so that a command loads none it does not use. */
export function lazyDriver(name: string, load: () => Promise<SandboxDriver>): SandboxDriver {
  let loading: Promise<SandboxDriver> | null = null;
  const driver = (): Promise<SandboxDriver> => {
    loading ??= load();
    return loading;
  };
  return {
    name,
    check: async () => (await driver()).check(),
    capabilities: async () => (await driver()).capabilities(),
    ensure: async (spec) => (await driver()).ensure(spec),
    find: async (projectId) => (await driver()).find(projectId),
    list: async () => (await driver()).list(),
    usage: async (projectId) => (await driver()).usage(projectId),
    volumeBytes: async (projectId, limitMs) => (await driver()).volumeBytes(projectId, limitMs),
    stop: async (projectId) => (await driver()).stop(projectId),
    remove: async (projectId, options) => (await driver()).remove(projectId, options),
    pack: async (projectId, format) => (await driver()).pack(projectId, format),
    restore: async (projectId, archive, how) => (await driver()).restore(projectId, archive, how),
    watch: async function* (signal) {
      yield* (await driver()).watch(signal);
    },
  };
}
