import { z } from "zod";
import { readAgentEvent } from "./agent-output.ts";
import type { AgentResult } from "./port.ts";
import { cut, printable } from "./prompt.ts";

const resultSchema = z.object({ summary: z.string() });
const maxSummaryLength = 2_000;

/** Reads a result file leniently: bad JSON or an unknown shape gives no summary and never fails. */
export function parseResult(text: string | null): AgentResult {
  const summary = text === null ? "" : printable(readSummary(text)).trim();
  return { summary: summary === "" ? null : cut(summary, maxSummaryLength) };
}

/**
 * Returns the messages of an agent after its last action, from its events. Earlier messages
 * describe plans, and thoughts stay private.
 */
export function lastMessage(output: string): string | null {
  let messages: string[] = [];
  let last: string[] = [];
  for (const line of output.split("\n")) {
    const event = readAgentEvent(line);
    if (event === null) continue;
    if (event.kind === "message") {
      messages.push(event.text);
      last = messages;
    } else if (deeds.has(event.kind)) messages = [];
  }
  const text = printable(last.join("\n")).trim();
  return text === "" ? null : cut(text, maxSummaryLength);
}

const deeds = new Set(["session", "tool", "diff", "plan", "permission"]);

function readSummary(text: string): string {
  try {
    return resultSchema.safeParse(JSON.parse(text.replace(/^\uFEFF/, ""))).data?.summary ?? "";
  } catch {
    return ""; // the file is the agent's courtesy; what counts is in git
  }
}
