import { type Tool, tool } from "ai";
import { z } from "zod";
import { runCommand } from "./commands.ts";
import { type Change, createTreeFiles, Refused, resolveInTree } from "./files.ts";

/** Describes a tool call, for reporting it and asking permission. */
export interface ToolAction {
  readonly id: string;
  readonly title: string;
  readonly action: "read" | "edit" | "search" | "execute";
  readonly paths: readonly string[];
  readonly input: unknown;
  readonly change?: Change;
}

export interface ToolSetting {
  readonly tree: string;
  readonly signal: AbortSignal;
  /** Reports an action, asks permission where needed, and then runs `work`. */
  readonly perform: <Result>(action: ToolAction, work: () => Promise<Result> | Result) => Promise<Result>;
}

const defaultTimeoutMs = 120_000;
const maxTimeoutMs = 600_000;

/**
 * Creates the tools of the built-in agent for one tree. Refusals are returned to the model as the
 * tool's answer.
 */
export function createTools({ tree, signal, perform }: ToolSetting): Record<string, Tool> {
  const files = createTreeFiles(tree);
  const about = (id: string, input: unknown) => ({ id, input });
  const edit = (description: Omit<ToolAction, "action">, change: Change): Promise<string> =>
    perform({ ...description, action: "edit", change }, () => {
      files.apply(change);
      return "done";
    });
  return {
    read_file: tool({
      description: "Reads a text file, or some lines of it (from: the first line, counted from 1).",
      inputSchema: z.object({
        path: z.string(),
        from: z.int().positive().optional(),
        lines: z.int().positive().optional(),
      }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() =>
          perform(
            { ...about(toolCallId, input), title: `Read ${input.path}`, action: "read", paths: [input.path] },
            () => files.read(input.path, input),
          ),
        ),
    }),
    write_file: tool({
      description: "Writes a whole file, new or in place of the one you have read.",
      inputSchema: z.object({ path: z.string(), content: z.string() }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() => {
          const change = files.plan(input.path, () => input.content);
          return edit({ ...about(toolCallId, input), title: `Write ${input.path}`, paths: [input.path] }, change);
        }),
    }),
    edit_file: tool({
      description: "Replaces a text that occurs exactly once in a file you have read (all: every occurrence).",
      inputSchema: z.object({ path: z.string(), old: z.string().min(1), new: z.string(), all: z.boolean().optional() }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() => {
          const change = files.plan(input.path, (before) => replaced(before, input));
          return edit({ ...about(toolCallId, input), title: `Edit ${input.path}`, paths: [input.path] }, change);
        }),
    }),
    list_files: tool({
      description: "Lists the files below a folder that git does not ignore.",
      inputSchema: z.object({ path: z.string().default(".") }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() =>
          perform(
            { ...about(toolCallId, input), title: `List ${input.path}`, action: "read", paths: [input.path] },
            async () => {
              const target = resolveInTree(tree, input.path);
              const argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", target];
              const { output } = await runCommand(argv, { cwd: tree, timeoutMs: defaultTimeoutMs, signal });
              return output.trim() === "" ? "no files" : output;
            },
          ),
        ),
    }),
    search: tool({
      description: "Searches the files that git does not ignore for an extended regular expression.",
      inputSchema: z.object({ pattern: z.string().min(1), path: z.string().default(".") }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() =>
          perform(
            { ...about(toolCallId, input), title: `Search ${input.pattern}`, action: "search", paths: [input.path] },
            async () => {
              const target = resolveInTree(tree, input.path);
              const argv = ["git", "grep", "--untracked", "-n", "-I", "-E", "-e", input.pattern, "--", target];
              const { output } = await runCommand(argv, { cwd: tree, timeoutMs: defaultTimeoutMs, signal });
              return output.trim() === "" ? "nothing found" : output;
            },
          ),
        ),
    }),
    exec: tool({
      description:
        "Runs a shell command in your tree and gives its output and exit code. Nothing of it goes on afterwards.",
      inputSchema: z.object({ command: z.string().min(1), timeoutSeconds: z.number().positive().optional() }),
      execute: (input, { toolCallId }) =>
        answerRefusals(() =>
          perform({ ...about(toolCallId, input), title: input.command, action: "execute", paths: [] }, async () => {
            const timeoutMs = Math.min((input.timeoutSeconds ?? defaultTimeoutMs / 1000) * 1000, maxTimeoutMs);
            const ran = await runCommand(["sh", "-c", input.command], { cwd: tree, timeoutMs, signal });
            const end = ran.timedOut
              ? `ended after ${timeoutMs / 1000} s`
              : `exit code ${ran.exitCode ?? "none (killed)"}`;
            return `${ran.output}\n[${end}]`;
          }),
        ),
    }),
  };
}

function replaced(
  before: string | null,
  input: { path: string; old: string; new: string; all?: boolean | undefined },
): string {
  if (before === null) throw new Refused(`there is no file ${input.path}`);
  const parts = before.split(input.old);
  if (parts.length === 1) throw new Refused(`${input.path} does not have that text: read it again`);
  if (parts.length > 2 && input.all !== true) {
    throw new Refused(`that text occurs ${parts.length - 1} times in ${input.path}: give more of it, or set all`);
  }
  return parts.join(input.new);
}

/** Returns to the model what it can fix; any other error ends the turn. */
async function answerRefusals(work: () => Promise<string> | string): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refused) return `not done: ${error.message}`;
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code === "string" && /^E[A-Z]+$/.test(code)) return `not done: ${(error as Error).message}`;
    throw error;
  }
}
