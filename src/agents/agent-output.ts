import { z } from "zod";
import { type AgentEnd, type AgentEvent, agentEnds } from "../agent-host/protocol.ts";

// What the agent host prints, read leniently: it comes from the sandbox.

const text = z.string();
const eventSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("session"), agent: text, resumed: z.boolean(), model: text.nullable() }),
  z.object({ kind: z.enum(["message", "thought"]), text }),
  z.object({ kind: z.literal("plan"), entries: z.array(z.object({ text, status: text })) }),
  z.object({ kind: z.literal("tool"), id: text, title: text, action: text, status: text, paths: z.array(text) }),
  z.object({ kind: z.literal("diff"), path: text, added: z.number(), removed: z.number() }),
  z.object({ kind: z.literal("permission"), title: text, action: text, allowed: z.boolean(), reason: text }),
  z.object({ kind: z.literal("usage"), used: z.number(), size: z.number(), usd: z.number().nullable() }),
  z.object({ kind: z.literal("notice"), text }),
  z.object({ kind: z.literal("end"), end: z.enum(Object.keys(agentEnds) as [AgentEnd, ...AgentEnd[]]), detail: text }),
]);
const lineSchema = z.intersection(z.object({ wavesmith: z.literal(1), at: text }), eventSchema);

/** The event that a line of output is; null when the agent printed the line itself. */
export function readAgentEvent(line: string): AgentEvent | null {
  if (!line.startsWith('{"wavesmith":1,')) return null;
  try {
    const parsed = lineSchema.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : null;
  } catch {
    return null; // Cut off, or not ours.
  }
}

/** How the agent ended, as its host said it last; null when it never did. */
export function agentEndOf(output: string): { readonly end: AgentEnd; readonly detail: string } | null {
  for (const line of output.trimEnd().split("\n").reverse()) {
    const event = readAgentEvent(line);
    if (event?.kind === "end") return { end: event.end, detail: event.detail };
  }
  return null;
}

/** One line of output as a person reads it; null when there is nothing to tell. */
export function agentLine(line: string): string | null {
  const event = readAgentEvent(line);
  return event === null ? line : eventText(event);
}

/** Output with its events as a person reads them. */
export const agentText = (output: string): string =>
  output
    .split("\n")
    .flatMap((line) => agentLine(line) ?? [])
    .join("\n");

function eventText(event: AgentEvent): string | null {
  switch (event.kind) {
    case "session":
      return `[${event.agent}${event.model === null ? "" : `, ${event.model}`}${event.resumed ? ", goes on with its session" : ""}]`;
    case "message":
      return event.text;
    case "thought":
      return `(${event.text})`;
    case "plan":
      return event.entries.map((entry) => `[${entry.status === "completed" ? "x" : " "}] ${entry.text}`).join("\n");
    case "tool":
      return event.status === "pending"
        ? `> ${event.title}`
        : event.status === "failed"
          ? `> ${event.title}: failed`
          : null;
    case "diff":
      return `  ${event.path} +${event.added} -${event.removed}`;
    case "permission":
      return event.allowed ? null : `  not allowed: ${event.title} (${event.reason})`;
    case "usage":
      return null;
    case "notice":
      return `[${event.text}]`;
    case "end":
      return event.detail === "" ? null : `[${event.end}: ${event.detail}]`;
  }
}
