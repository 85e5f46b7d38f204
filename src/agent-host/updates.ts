// The updates of the Agent Client Protocol (v1) as our events, the same for every agent.
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { createToolCalls, type ToolCalls, type ToolCallsParts } from "./tool-calls.ts";

/** The updates of one session, as they arrive. */
export interface Updates {
  take(update: SessionUpdate): void;
  mute(muted: boolean): void;
  /** Forgets earlier messages, because a prompt is about to be sent. */
  beginTurn(): void;
  /** Whether anything has arrived since then. */
  hasSpoken(): boolean;
  readonly record: ToolCalls["record"];
  /** Returns the beginning of the last message since the previous call or the last tool call. */
  takeLastMessage(): string;
}

const maxMessageLength = 10_000;

/** Others, such as usage, may come at any time. */
const saysSomething = new Set<SessionUpdate["sessionUpdate"]>([
  ...(["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"] as const),
]);

/** Turns updates into our events, in the order they arrive. */
export function createUpdates({ events, onLoop, request }: ToolCallsParts): Updates {
  const calls = createToolCalls({ events, onLoop, request });
  let muted = false;
  let lastText = "";
  let spoken = false;
  const take = (update: SessionUpdate): void => {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
      case "agent_thought_chunk": {
        const kind = update.sessionUpdate === "agent_message_chunk" ? "message" : "thought";
        if (update.content.type !== "text") break;
        if (kind === "message") lastText = appendMessage(lastText, update.content.text);
        events.say(kind, update.content.text);
        break;
      }
      case "tool_call":
      case "tool_call_update":
        lastText = "";
        calls.take(update);
        break;
      case "plan":
        events.report({ kind: "plan", entries: update.entries.map(({ content: text, status }) => ({ text, status })) });
        break;
      case "usage_update": {
        const usd = update.cost?.currency === "USD" ? update.cost.amount : null;
        events.report({ kind: "usage", used: update.used, size: update.size, usd });
        break;
      }
      case "notice":
        events.report({ kind: "notice", text: `${update.title} ${update.description ?? ""}`.trim() });
        break;
      default:
        break; // Modes, commands and titles are ignored.
    }
  };
  return {
    record: calls.record,
    beginTurn() {
      lastText = "";
      spoken = false;
    },
    hasSpoken: () => spoken,
    takeLastMessage() {
      const text = lastText;
      lastText = "";
      return text;
    },
    mute(value) {
      muted = value;
    },
    take(update) {
      if (muted) return;
      spoken ||= saysSomething.has(update.sessionUpdate);
      take(update);
    },
  };
}

/**
 * Appends to the last message: agents end a complete message with a newline, and a chunk without
 * one.
 */
const appendMessage = (message: string, text: string): string =>
  (message.endsWith("\n") ? text : message + text).slice(0, maxMessageLength);
