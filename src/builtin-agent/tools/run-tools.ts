import { type Tool, tool } from "ai";
import { z } from "zod";
import type { BackgroundPrograms } from "../background.ts";
import { runForTool } from "../commands.ts";
import { answerRefusals, type ToolSetting } from "./perform.ts";

const defaultTimeoutMs = 120_000;
const maxTimeoutMs = 1_800_000;
const fetchTimeoutMs = 60_000;
const maxFetchBytes = 5 * 1024 * 1024;

/** Creates the tools that run programs and fetch pages; the sandbox confines both. */
export function createRunTools(
  { tree, perform, signal }: ToolSetting,
  background: BackgroundPrograms,
): Record<string, Tool> {
  return {
    exec: tool({
      description:
        "Runs a shell command in your tree and returns its output and exit code. Every process it started is ended with it. Set timeoutSeconds for slow ones (default 120, at most 1800).",
      inputSchema: z.object({ command: z.string().min(1), timeoutSeconds: z.number().positive().optional() }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: input.command, action: "execute", paths: [], hasFailed }, () =>
            execute(input, { tree, signal }),
          ),
        ),
    }),
    start_program: tool({
      description: "Starts a shell command that keeps running in the background, such as a server to test against.",
      inputSchema: z.object({ command: z.string().min(1) }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Start ${input.command}`, action: "execute", paths: [] }, () =>
            background.start(input.command),
          ),
        ),
    }),
    read_program: tool({
      description:
        "Returns what a background program has printed since you last asked, and whether it is still running.",
      inputSchema: z.object({ name: z.string() }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Output of ${input.name}`, action: "read", paths: [] }, () =>
            background.read(input.name),
          ),
        ),
    }),
    stop_program: tool({
      description: "Ends a background program.",
      inputSchema: z.object({ name: z.string() }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Stop ${input.name}`, action: "other", paths: [] }, () =>
            background.stop(input.name),
          ),
        ),
    }),
    fetch_page: tool({
      description: "Fetches a web page or file as text, where the network of the sandbox allows it.",
      inputSchema: z.object({ url: z.string().regex(/^https?:\/\//, "an http or https URL") }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Fetch ${input.url}`, action: "fetch", paths: [] }, () =>
            fetchPage(input.url, { tree, signal }),
          ),
        ),
    }),
  };
}

async function execute(
  { command, timeoutSeconds }: { readonly command: string; readonly timeoutSeconds?: number | undefined },
  { tree, signal }: Pick<ToolSetting, "tree" | "signal">,
): Promise<string> {
  const timeoutMs = Math.min((timeoutSeconds ?? defaultTimeoutMs / 1000) * 1000, maxTimeoutMs);
  const ran = await runForTool(["sh", "-c", command], { cwd: tree, timeoutMs, signal });
  const end = ran.timedOut ? `ended after ${timeoutMs / 1000} s` : `exit code ${ran.exitCode ?? "none (killed)"}`;
  return `${ran.output}\n[${end}]`;
}

async function fetchPage(url: string, { tree, signal }: Pick<ToolSetting, "tree" | "signal">): Promise<string> {
  const limits = ["--max-time", "45", "--max-filesize", String(maxFetchBytes)];
  const argv = ["curl", "-fsSL", "--proto", "=http,https", ...limits, "--", url];
  const { output, exitCode } = await runForTool(argv, { cwd: tree, timeoutMs: fetchTimeoutMs, signal });
  return exitCode === 0 ? textOf(output) : `not fetched: ${output}`;
}

const hasFailed = (result: unknown): boolean => !String(result).endsWith("\n[exit code 0]");

/** Leaves the markup of a page out. */
function textOf(page: string): string {
  if (!/<html[\s>]/i.test(page)) return page;
  return page
    .replace(/<(script|style|svg|head)\b[\s\S]*?<\/\1>/gi, "")
    .replace(/<[^>]+>/g, " ")
    .replace(/[ \t]+/g, " ")
    .replace(/\s*\n\s*/g, "\n");
}
