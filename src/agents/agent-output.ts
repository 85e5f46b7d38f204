import { z } from "zod";
import { type AgentEnd, type AgentEvent, agentEnds } from "../agent-host/protocol.ts";
import { type Activity, boundActivity } from "../domain/events/activity.ts";
import type { QuestionEvent } from "./port.ts";

// Reads the agent host's output leniently, because it comes from the sandbox.

const text = z.string();
const eventSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("session"), agent: text, resumed: z.boolean(), model: text.nullable() }),
  z.object({ kind: z.enum(["message", "thought"]), text }),
  z.object({ kind: z.literal("plan"), entries: z.array(z.object({ text, status: text })) }),
  z.object({
    kind: z.literal("tool"),
    id: text,
    title: text,
    input: text.exactOptional(),
    action: text,
    status: text,
    paths: z.array(text),
  }),
  z.object({ kind: z.literal("diff"), path: text, added: z.number(), removed: z.number() }),
  z.object({
    kind: z.literal("permission"),
    title: text,
    action: text,
    allowed: z.boolean(),
    reason: text,
    question: text.exactOptional(),
  }),
  z.object({
    kind: z.literal("question"),
    // The number names one of our files, and no agent asks a thousand questions.
    name: z.string().regex(/^q\d{1,3}$/),
    title: text.max(2_000),
    action: text,
    reason: text.max(2_000),
    options: z.array(z.object({ name: text.max(2_000), kind: text.max(50) })).max(10),
    waitMs: z.number(),
  }),
  z.object({ kind: z.literal("usage"), used: z.number(), size: z.number(), usd: z.number().nullable() }),
  z.object({ kind: z.literal("told"), message: z.int().positive(), by: text, text }),
  z.object({ kind: z.literal("notice"), text }),
  z.object({ kind: z.literal("end"), end: z.enum(Object.keys(agentEnds) as [AgentEnd, ...AgentEnd[]]), detail: text }),
]);
const lineSchema = z.intersection(z.object({ wavesmith: z.literal(1), at: text }), eventSchema);

/** Parses a line of output as an event; null when the agent printed the line itself. */
export function readAgentEvent(line: string): AgentEvent | null {
  if (!line.startsWith('{"wavesmith":1,')) return null;
  try {
    const parsed = lineSchema.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : null;
  } catch {
    return null; // Cut off, or not ours.
  }
}

/** How the agent ended, from its host's last report; null when there is none. */
export function agentEndOf(output: string): { readonly end: AgentEnd; readonly detail: string } | null {
  for (const line of output.trimEnd().split("\n").reverse()) {
    const event = readAgentEvent(line);
    if (event?.kind === "end") return { end: event.end, detail: event.detail };
  }
  return null;
}

/** Reads reports about questions from complete lines of output, in order. */
export function questionsIn(lines: string): QuestionEvent[] {
  // Most lines are not about questions, so skip parsing them.
  if (!lines.includes('"question"')) return [];
  return lines.split("\n").flatMap((line): QuestionEvent[] => {
    const event = readAgentEvent(line);
    if (event?.kind === "permission" && event.question !== undefined) return [{ kind: "closed", name: event.question }];
    if (event?.kind !== "question") return [];
    const { name, title, reason, options, waitMs } = event;
    return [{ kind: "asked", name, text: title, reason, options, waitMs }];
  });
}

/** Reads what an agent reports that it does from complete lines of output, in order. */
export function activitiesIn(lines: string): Activity[] {
  if (!lines.includes('{"wavesmith":1,')) return [];
  const activities: Activity[] = [];
  for (const line of lines.split("\n")) {
    const event = readAgentEvent(line);
    const activity = event === null ? null : activityOf(event);
    if (activity === null) continue;
    const last = activities.at(-1);
    // A message arrives line by line.
    if (activity.kind === "message" && last?.kind === "message")
      activities[activities.length - 1] = { ...last, text: `${last.text}\n${activity.text}` };
    else activities.push(activity);
  }
  return activities.map(boundActivity);
}

function activityOf(event: AgentEvent): Activity | null {
  switch (event.kind) {
    case "message":
      return { kind: "message", text: event.text };
    case "plan":
      return { kind: "plan", entries: [...event.entries] };
    case "tool": {
      const { kind, id, title, input = null, action, status, paths } = event;
      return { kind, id, title, input, action, status, paths: [...paths] };
    }
    case "diff":
      return { kind: "edit", path: event.path, added: event.added, removed: event.removed };
    case "permission": {
      const { kind, title, action, allowed, reason } = event;
      return { kind, title, action, allowed, reason };
    }
    case "notice":
      return { kind: "notice", text: event.text };
    case "end":
      return event.detail === "" ? null : { kind: "notice", text: `${event.end}: ${event.detail}` };
    default:
      return null; // Thoughts, usage and what is only for us.
  }
}

/** Reads which messages the agent got, from complete lines of output. */
export function toldIn(lines: string): number[] {
  if (!lines.includes('"kind":"told"')) return [];
  return lines.split("\n").flatMap((line) => {
    const event = readAgentEvent(line);
    return event?.kind === "told" ? [event.message] : [];
  });
}

const maxActionLength = 300;

/** Describes the latest tool call in complete lines of output; null if there is none. */
export function lastActionIn(lines: string): string | null {
  if (!lines.includes('"kind":"tool"')) return null;
  for (const line of lines.trimEnd().split("\n").reverse()) {
    const event = line.includes('"kind":"tool"') ? readAgentEvent(line) : null;
    if (event?.kind === "tool") return callText(event).slice(0, maxActionLength);
  }
  return null;
}

const callText = ({ title, input }: { readonly title: string; readonly input?: string }): string =>
  input === undefined ? title : `${title}: ${input}`;

/** Formats one line of output for a person; null when there is nothing to show. */
export function agentLine(line: string): string | null {
  const event = readAgentEvent(line);
  return event === null ? line : eventText(event);
}

/** Formats output and its events for a person. */
export const agentText = (output: string): string =>
  output
    .split("\n")
    .flatMap((line) => agentLine(line) ?? [])
    .join("\n");

function eventText(event: AgentEvent): string | null {
  switch (event.kind) {
    case "session":
      return `[${event.agent}${event.model === null ? "" : `, ${event.model}`}${event.resumed ? ", continues its session" : ""}]`;
    case "message":
      return event.text;
    case "thought":
      return `(${event.text})`;
    case "plan":
      return event.entries.map((entry) => `[${entry.status === "completed" ? "x" : " "}] ${entry.text}`).join("\n");
    case "tool": {
      const call = callText(event);
      if (event.status === "pending") return `> ${call}`;
      return event.status === "failed" ? `> failed: ${call}` : null;
    }
    case "diff":
      return `  ${event.path} +${event.added} -${event.removed}`;
    case "permission":
      if (event.allowed) return event.question === undefined ? null : `  ${event.reason}: ${event.title}`;
      return `  not allowed: ${event.title} (${event.reason})`;
    case "question":
      return `  asks a person: ${event.title} (${event.reason})`;
    case "usage":
      return null;
    case "told":
      return `[told by ${event.by}: ${event.text}]`;
    case "notice":
      return `[${event.text}]`;
    case "end":
      return event.detail === "" ? null : `[${event.end}: ${event.detail}]`;
  }
}
