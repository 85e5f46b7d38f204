import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../domain/errors.ts";
import type { LifecyclePorts } from "../port.ts";
import { checkSandboxes } from "./sandbox-health.ts";

// HS1. A driver's report is a hint to check, never a fact. Only the check decides, and the one that
// runs every minute finds what was missed.
// HS2. Many changes at the same moment, or several of one sandbox, cause one check.

const settleMs = 250;
const firstPauseMs = 1_000;
const maxPauseMs = 60_000;

export interface SandboxHearing {
  /** Watches the sandboxes of this driver from now on. Safe to call again. */
  hear(driverName: string): void;
  /** Resolves when every watch and check has ended. */
  stop(): Promise<void>;
}

export interface HearingOptions {
  readonly projectIds: "all" | ReadonlySet<string>;
  /** Sends the events that a look has put into the outbox. */
  readonly flush: () => Promise<void>;
}

/** Looks at sandboxes of these projects at once when their driver reports a change. */
export function hearSandboxes(ports: LifecyclePorts, { projectIds, flush }: HearingOptions): SandboxHearing {
  const stopping = new AbortController();
  const heard = new Map<string, Promise<void>>();
  const waiting = new Set<string>();
  let timer: NodeJS.Timeout | null = null;
  let lastCheck: Promise<void> = Promise.resolve();

  const checkHeard = async (): Promise<void> => {
    const ids = [...waiting];
    waiting.clear();
    const { lost } = await checkSandboxes(ports, ids);
    if (lost === 0) return;
    await flush();
    ports.wakeWatcher();
  };
  const begin = (): void => {
    timer = null;
    lastCheck = lastCheck.then(checkHeard).catch((error: unknown) => {
      ports.log.warn(`cannot check the sandboxes: ${messageOf(error)}; trying again within a minute`);
    });
  };
  const note = (projectId: string): void => {
    if (stopping.signal.aborted || (projectIds !== "all" && !projectIds.has(projectId))) return;
    waiting.add(projectId);
    timer ??= setTimeout(begin, settleMs).unref();
  };
  return {
    hear(driverName) {
      if (stopping.signal.aborted || heard.has(driverName)) return;
      heard.set(driverName, listen(ports, driverName, { note, signal: stopping.signal }));
    },
    async stop() {
      stopping.abort();
      if (timer !== null) clearTimeout(timer);
      await Promise.all(heard.values());
      await lastCheck;
    },
  };
}

/**
 * Watches until the signal. A watch that ends or fails starts again, with growing pauses. Never
 * fails.
 */
async function listen(
  ports: LifecyclePorts,
  driverName: string,
  { note, signal }: { note: (projectId: string) => void; signal: AbortSignal },
): Promise<void> {
  let trouble = "";
  for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    try {
      for await (const { projectId, change } of ports.driver(driverName).watch(signal)) {
        pauseMs = firstPauseMs / 2;
        if (change !== "started") note(projectId);
      }
    } catch (error) {
      if (messageOf(error) !== trouble) ports.log.warn(`${driverName} sandboxes are not watched: ${messageOf(error)}`);
      trouble = messageOf(error);
    }
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined); // The signal came.
  }
}
