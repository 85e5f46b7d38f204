/** Holds what a person writes while the model works; the model reads it before its next step. */
export interface MessageQueue {
  /** Resolves once the model is to read it; rejects if the turn ends first. */
  add(text: string): Promise<void>;
  isWaiting(): boolean;
  /** Returns the waiting texts, oldest first. */
  take(): readonly string[];
  /** Ends the turn. */
  close(): void;
}

interface Waiting {
  readonly text: string;
  readonly read: () => void;
  readonly drop: (reason: Error) => void;
}

export function createMessageQueue(): MessageQueue {
  let waiting: Waiting[] = [];
  return {
    add: (text) => new Promise((read, drop) => waiting.push({ text, read, drop })),
    isWaiting: () => waiting.length > 0,
    take() {
      const taken = waiting;
      waiting = [];
      for (const { read } of taken) read();
      return taken.map(({ text }) => text);
    },
    close() {
      for (const { drop } of waiting) drop(new Error("the turn has ended"));
      waiting = [];
    },
  };
}
