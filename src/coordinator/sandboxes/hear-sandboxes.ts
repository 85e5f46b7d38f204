import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../domain/errors.ts";
import type { Ports } from "../port.ts";
import { checkSandboxes } from "./watch-sandboxes.ts";

// H1. What a driver tells is a hint to look, never a fact: the look decides, and the check of every
// minute finds what was not heard.
// H2. What happens to many sandboxes in one moment, or often to one, is one look.

const settleMs = 250;
const firstPauseMs = 1_000;
const longestPauseMs = 60_000;

export interface SandboxHearing {
  /** Hears of the sandboxes of this driver from now on. Safe to call again. */
  hear(driverName: string): void;
  /** Over when nothing is watched or looked at any more. */
  stop(): Promise<void>;
}

export interface HearingOptions {
  readonly projectIds: "all" | ReadonlySet<string>;
  /** Sends what a look has put into the outbox. */
  readonly flush: () => Promise<void>;
}

/**
 * Looks at sandboxes of these projects at once when their driver tells that something befell them.
 */
export function hearSandboxes(ports: Ports, { projectIds, flush }: HearingOptions): SandboxHearing {
  const stopping = new AbortController();
  const heard = new Map<string, Promise<void>>();
  const waiting = new Set<string>();
  let timer: NodeJS.Timeout | null = null;
  let turn: Promise<void> = Promise.resolve();

  const look = async (): Promise<void> => {
    const ids = [...waiting];
    waiting.clear();
    const { lost } = await checkSandboxes(ports, ids);
    if (lost === 0) return;
    await flush();
    ports.wakeWatcher();
  };
  const begin = (): void => {
    timer = null;
    turn = turn.then(look).catch((error: unknown) => {
      ports.log.warn(`sandboxes could not be looked at: ${messageOf(error)}; it is done again within a minute`);
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
      await turn;
    },
  };
}

/**
 * Until the signal; a watch that ends or fails is begun again, the later the more often it did.
 * Never fails.
 */
async function listen(
  ports: Ports,
  driverName: string,
  { note, signal }: { note: (projectId: string) => void; signal: AbortSignal },
): Promise<void> {
  let trouble = "";
  for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      for await (const { projectId, change } of ports.driver(driverName).watch(signal)) {
        pauseMs = firstPauseMs / 2;
        if (change !== "started") note(projectId);
      }
    } catch (error) {
      if (messageOf(error) !== trouble) ports.log.warn(`${driverName} sandboxes are not watched: ${messageOf(error)}`);
      trouble = messageOf(error);
    }
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined); // It is to stop.
  }
}
