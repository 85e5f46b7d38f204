import { WavesmithError } from "../domain/errors.ts";
import type { GuestClient, SandboxEndpoint } from "../sandbox/port.ts";
import type { SandboxRow } from "../store/port.ts";
import { noteLoss } from "./losses.ts";
import type { LifecyclePorts } from "./port.ts";
import { withSandboxAlone } from "./sandbox-locks.ts";

// A guest that violates the protocol is broken, or no longer ours, so we trust none of its answers.
// The next use of the sandbox restarts it, and its running jobs are lost (W4). Each process
// remembers the boots that it caught.

/** The violations by boot id. */
const caught = new Map<string, string>();

/** Returns why this boot's guest is not trusted; null when it is. */
export const distrustOf = (bootId: string | null): string | null =>
  bootId === null ? null : (caught.get(bootId) ?? null);

const distrust = (bootId: string, why: string): Map<string, string> => caught.set(bootId, why);

/** Wraps an endpoint so that a violation of the protocol by its guest is remembered. */
export function watchedEndpoint(endpoint: SandboxEndpoint): SandboxEndpoint {
  const note = (error: unknown): never => {
    if (error instanceof WavesmithError && error.code === "guest-protocol") distrust(endpoint.bootId, error.message);
    throw error;
  };
  const guest = new Proxy(endpoint.guest, {
    get: (target, name: keyof GuestClient) => {
      const call = target[name] as unknown;
      if (typeof call !== "function") return call;
      return (...args: unknown[]) => {
        const answer: unknown = call.apply(target, args);
        return answer instanceof Promise ? answer.catch(note) : answer;
      };
    },
  });
  return { ...endpoint, guest };
}

/**
 * Ends a running sandbox whose guest is not trusted, and records that. Its volume stays. The caller
 * holds its lock.
 */
export async function endDistrusted(ports: LifecyclePorts, row: SandboxRow, why: string): Promise<void> {
  ports.log.warn(`sandbox ${row.id} is replaced: ${why}`);
  await ports.driver(row.driver).stop(row.projectId);
  await noteLoss(ports, row, `replaced: ${why}`);
  if (row.bootId !== null) caught.delete(row.bootId);
}

/** Calls `endDistrusted` for the sandbox in which a job ran, if it still runs. */
export const endSandboxOf = (ports: LifecyclePorts, projectId: string, why: string): Promise<unknown> =>
  withSandboxAlone(ports, projectId, async () => {
    const row = await ports.store.sandboxes.find({ projectId, state: "running" });
    if (row !== null) await endDistrusted(ports, row, why);
  });
