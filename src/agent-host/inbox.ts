import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { AgentHostRequest, AgentMessage } from "./protocol.ts";

/** A person's messages that the agent has not got yet. */
export interface Inbox {
  /** Returns the waiting messages, oldest first. */
  waiting(): readonly AgentMessage[];
  /** Removes a message, because the agent has got it. */
  remove(message: AgentMessage): void;
  /** Calls back for each new message, until the returned function is called. */
  onMessage(callback: (message: AgentMessage) => void): () => void;
}

/** Reads the request from the first line of stdin, and people's messages from the later ones. */
export async function readInput(stdin: Readable): Promise<{ request: AgentHostRequest; inbox: Inbox }> {
  const lines = createInterface({ input: stdin, crlfDelay: Number.POSITIVE_INFINITY });
  const first = new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    lines.once("close", () => reject(new Error("there is no request on stdin")));
  });
  const request = JSON.parse(await first) as AgentHostRequest;
  return { request, inbox: createInbox((take) => lines.on("line", take)) };
}

function createInbox(onLine: (take: (line: string) => void) => void): Inbox {
  let messages: readonly AgentMessage[] = [];
  let listener: ((message: AgentMessage) => void) | null = null;
  onLine((line) => {
    const message = JSON.parse(line) as AgentMessage;
    messages = [...messages, message];
    listener?.(message);
  });
  return {
    waiting: () => messages,
    remove(message) {
      messages = messages.filter((one) => one !== message);
    },
    onMessage(callback) {
      listener = callback;
      return () => {
        listener = null;
      };
    },
  };
}
