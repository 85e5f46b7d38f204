import { z } from "zod";
import type { AgentResult } from "./port.ts";
import { cut, printable } from "./prompt.ts";

const resultSchema = z.object({ summary: z.string() });
const longestSummary = 2_000;

/** Reads a result file leniently: bad JSON or a foreign shape gives no summary, never a failure. */
export function parseResult(text: string | null): AgentResult {
  const summary = text === null ? "" : printable(readSummary(text)).trim();
  return { summary: summary === "" ? null : cut(summary, longestSummary) };
}

function readSummary(text: string): string {
  try {
    return resultSchema.safeParse(JSON.parse(text.replace(/^\uFEFF/, ""))).data?.summary ?? "";
  } catch {
    return ""; // the file is the agent's courtesy; what counts is in git
  }
}
