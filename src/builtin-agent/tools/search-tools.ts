import { relative } from "node:path";
import { type Tool, tool } from "ai";
import { z } from "zod";
import { runForTool } from "../commands.ts";
import { resolveInTree } from "../files.ts";
import { answerRefusals, type ToolSetting } from "./perform.ts";

const timeoutMs = 60_000;
const maxLines = 500;

/** Creates the tools that find files and text. Files that git ignores are left out. */
export function createSearchTools({ tree, perform, signal }: ToolSetting): Record<string, Tool> {
  const git = async (args: readonly string[], none: string): Promise<string> => {
    const { output } = await runForTool(["git", ...args], { cwd: tree, timeoutMs, signal });
    const lines = output.trimEnd().split("\n");
    if (output.trim() === "") return none;
    const more = lines.length > maxLines ? `\n[${lines.length - maxLines} more lines: narrow it down]` : "";
    return `${lines.slice(0, maxLines).join("\n")}${more}`;
  };
  const list = ["ls-files", "--cached", "--others", "--exclude-standard"];
  return {
    list_files: tool({
      description: "Lists the files below a folder.",
      inputSchema: z.object({ path: z.string().default(".") }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `List ${input.path}`, action: "read", paths: [input.path] }, () =>
            git([...list, "--", resolveInTree(tree, input.path)], "no files"),
          ),
        ),
    }),
    glob: tool({
      description: "Finds files by a glob such as src/**/*.test.ts.",
      inputSchema: z.object({ pattern: z.string().min(1) }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Find ${input.pattern}`, action: "search", paths: [] }, () =>
            git([...list, "--", `:(glob)${input.pattern}`], "no files"),
          ),
        ),
    }),
    search: tool({
      description:
        "Searches files for an extended regular expression and shows each match with its line number. `context`: lines around each match; `glob`: only these files; `ignoreCase`.",
      inputSchema: z.object({
        pattern: z.string().min(1),
        path: z.string().default("."),
        glob: z.string().optional(),
        context: z.int().min(0).max(20).default(0),
        ignoreCase: z.boolean().default(false),
      }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Search ${input.pattern}`, action: "search", paths: [input.path] }, () => {
            const folder = relative(tree, resolveInTree(tree, input.path));
            const within =
              input.glob === undefined ? folder || "." : `:(glob)${folder === "" ? "" : `${folder}/`}${input.glob}`;
            const options = [
              "--untracked",
              "-n",
              "-I",
              "-E",
              `-C${input.context}`,
              ...(input.ignoreCase ? ["-i"] : []),
            ];
            return git(["grep", ...options, "-e", input.pattern, "--", within], "nothing found");
          }),
        ),
    }),
  };
}
