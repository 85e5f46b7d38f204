import type { LifecyclePorts } from "./port.ts";

/**
 * Runs `work` while nobody else starts, stops or replaces this project's sandbox. Without `wait` it
 * returns null and does nothing when somebody does.
 */
export const withSandboxAlone = <Result>(
  ports: Pick<LifecyclePorts, "store">,
  projectId: string,
  work: () => Promise<Result>,
  { wait } = { wait: true },
): Promise<Result | null> => ports.store.alone(`sandbox ${projectId}`, work, { wait });

/**
 * The same lock for the whole volume, for packing and replacing it. Take it before the sandbox's
 * lock, never inside.
 */
export const withVolumeAlone = <Result>(
  ports: Pick<LifecyclePorts, "store">,
  projectId: string,
  work: () => Promise<Result>,
  { wait } = { wait: true },
): Promise<Result | null> => ports.store.alone(`volume ${projectId}`, work, { wait });
