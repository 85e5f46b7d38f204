import { plainText } from "../parts/plain-text.ts";

// The output of an agent's attempt: lines that it printed, and lines in which the agent host tells
// what the agent did.

export type Entry =
  | { readonly kind: "line"; readonly text: string }
  | { readonly kind: "message" | "thought" | "notice"; readonly text: string; readonly at: string }
  | { readonly kind: "plan"; readonly entries: readonly { readonly text: string; readonly status: string }[] }
  | {
      readonly kind: "tool";
      readonly id: string;
      readonly title: string;
      readonly input: string;
      readonly status: string;
    }
  | { readonly kind: "diff"; readonly path: string; readonly added: number; readonly removed: number }
  | { readonly kind: "permission"; readonly title: string; readonly allowed: boolean; readonly reason: string }
  | { readonly kind: "session"; readonly text: string }
  | { readonly kind: "end"; readonly end: string; readonly text: string };

/** Entries so far, and the output that is not a whole line yet. */
export interface Activity {
  readonly entries: readonly Entry[];
  readonly rest: string;
  /** Where tools are among the entries, to update them. */
  readonly tools: ReadonlyMap<string, number>;
}

export const noActivity: Activity = { entries: [], rest: "", tools: new Map() };

/** Adds a part of the output. `isOver` takes the last line without its end. */
export function addOutput(before: Activity, text: string, isOver: boolean): Activity {
  const lines = (before.rest + text).split("\n");
  const rest = isOver ? "" : (lines.pop() ?? "");
  if (isOver && lines.at(-1) === "") lines.pop();
  const entries = before.entries.slice();
  const tools = new Map(before.tools);
  for (const line of lines) addLine(entries, tools, line);
  return { entries, rest, tools };
}

function addLine(entries: Entry[], tools: Map<string, number>, line: string): void {
  const event = eventIn(line);
  if (event === null) {
    entries.push({ kind: "line", text: plainText(line) });
    return;
  }
  const entry = entryOf(event);
  if (entry === null) return;
  const last = entries.at(-1);
  if ((entry.kind === "message" || entry.kind === "thought") && last?.kind === entry.kind) {
    // Agents stream what they say in pieces.
    entries[entries.length - 1] = { ...last, text: last.text + entry.text };
    return;
  }
  if (entry.kind === "tool") {
    const known = tools.get(entry.id);
    const present = known === undefined ? undefined : entries[known];
    if (known !== undefined && present?.kind === "tool") {
      entries[known] = { ...present, ...entry, input: entry.input === "" ? present.input : entry.input };
      return;
    }
    tools.set(entry.id, entries.length);
  }
  if (entry.kind === "plan" && last?.kind === "plan") entries[entries.length - 1] = entry;
  else entries.push(entry);
}

type Event = Readonly<Record<string, unknown>>;

function eventIn(line: string): Event | null {
  if (!line.startsWith('{"wavesmith":1,')) return null;
  try {
    return JSON.parse(line) as Event;
  } catch {
    return null; // cut off, or not from the agent host
  }
}

const text = (value: unknown): string => (typeof value === "string" ? plainText(value) : "");
const number = (value: unknown): number => (typeof value === "number" ? value : 0);

/** Agents report where a file is in their sandbox. */
const pathInTree = (path: string): string => path.replace(/^\/.*?\/trees\/[^/]+\/[^/]+\//, "");

function entryOf(event: Event): Entry | null {
  switch (event.kind) {
    case "message":
    case "thought":
    case "notice":
      return { kind: event.kind, text: text(event.text), at: text(event.at) };
    case "plan": {
      const entries = Array.isArray(event.entries) ? (event.entries as Event[]) : [];
      return { kind: "plan", entries: entries.map((one) => ({ text: text(one.text), status: text(one.status) })) };
    }
    case "tool":
      return {
        kind: "tool",
        id: text(event.id),
        title: text(event.title),
        input: text(event.input),
        status: text(event.status),
      };
    case "diff":
      return {
        kind: "diff",
        path: pathInTree(text(event.path)),
        added: number(event.added),
        removed: number(event.removed),
      };
    case "permission":
      return {
        kind: "permission",
        title: text(event.title),
        allowed: event.allowed === true,
        reason: text(event.reason),
      };
    case "session": {
      const model = text(event.model);
      const how = event.resumed === true ? "resumed its session" : "began";
      return { kind: "session", text: `${text(event.agent)} ${how}${model === "" ? "" : ` with ${model}`}` };
    }
    case "end":
      return { kind: "end", end: text(event.end), text: text(event.detail) };
    default:
      return null;
  }
}
