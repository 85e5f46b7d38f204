import type { AcpSession } from "./acp.ts";
import type { AgentTurn } from "./agent-fault.ts";
import { type ProxyAccess, waitsForProvider } from "./model-proxy.ts";
import { type AgentHostRequest, loopNudges } from "./protocol.ts";
import { createSilenceLimit } from "./silence-limit.ts";

export interface AgentEnding {
  /** Resolves when we ended the agent and it did not end its turn in time. */
  readonly ended: Promise<AgentTurn>;
  use(session: AcpSession): void;
  sign(): void;
  /** Interrupts an agent that repeats itself; ends it when it does so again. */
  loop(description: string): void;
  /** Returns what an interrupted agent repeated, once; null if it was not interrupted. */
  takeLoop(): string | null;
  /** Suspends the silence limit until the returned function is called. */
  hold(): () => void;
  /** Returns why we ended it; null when we did not. */
  why(): AgentTurn | null;
  stop(): void;
}

/** Ends an agent that is silent, loops, or is to be cancelled; asks it to stop first. */
export function createEnding({ idleMs, graceMs }: AgentHostRequest, proxy: ProxyAccess | null): AgentEnding {
  let session: AcpSession | null = null;
  let reason: AgentTurn | null = null;
  let settle: (turn: AgentTurn) => void = () => undefined;
  const ended = new Promise<AgentTurn>((resolve) => {
    settle = resolve;
  });
  let grace: NodeJS.Timeout | null = null;
  const end = (turn: AgentTurn): void => {
    if (reason !== null) return;
    reason = turn;
    // An agent that ignores the request is ended after the grace period.
    session?.cancel().catch(() => undefined);
    grace = setTimeout(() => settle(turn), session === null ? 0 : graceMs);
  };
  const silence = createSilenceLimit(idleMs, {
    isPaused: () => waitsForProvider(proxy),
    end: () => end({ end: "stalled", detail: `no output for ${Math.round(idleMs / 1000)} s` }),
  });
  const nudges = createNudges({
    graceMs,
    interrupt: () => session?.cancel().catch(() => undefined),
    end: (description) => end({ end: "stalled", detail: description }),
  });
  const cancel = (): void => end({ end: "cancelled", detail: "asked to stop" });
  process.on("SIGTERM", cancel).on("SIGINT", cancel);
  return {
    ended,
    use(opened) {
      session = opened;
    },
    sign: silence.restart,
    hold: silence.hold,
    loop(description) {
      if (reason === null) nudges.loop(description);
    },
    takeLoop: () => (reason === null ? nudges.take() : null),
    why: () => reason,
    stop() {
      silence.stop();
      if (grace !== null) clearTimeout(grace);
      nudges.take();
      process.off("SIGTERM", cancel).off("SIGINT", cancel);
    },
  };
}

interface NudgesParts {
  readonly graceMs: number;
  /** Asks the agent to end its turn. */
  readonly interrupt: () => void;
  /** Ends the agent. */
  readonly end: (description: string) => void;
}

/**
 * Interrupts an agent that repeats itself so that it can be warned, up to the allowed number of
 * times.
 */
function createNudges({ graceMs, interrupt, end }: NudgesParts) {
  let count = 0;
  let repeated: { readonly description: string; readonly timer: NodeJS.Timeout } | null = null;
  return {
    loop(description: string): void {
      if (repeated !== null) return;
      if (count === loopNudges) {
        end(description);
        return;
      }
      count += 1;
      // An agent that ignores the request is ended.
      repeated = { description, timer: setTimeout(() => end(description), graceMs) };
      interrupt();
    },
    take(): string | null {
      if (repeated === null) return null;
      const { description, timer } = repeated;
      clearTimeout(timer);
      repeated = null;
      return description;
    },
  };
}
