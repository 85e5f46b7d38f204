import type { Command } from "commander";
import type { AddCommand } from "./add-command.ts";

/** Adds the commands with which people talk to agents. */
export function addTalkCommands(program: Command, command: AddCommand): void {
  command(
    program,
    "tell <build> [text...]",
    "say something to a task's agent, even while it works",
    async (context, [name, ...words], options) => {
      const { tell } = await import("./commands/tell.ts");
      return tell(context, name, words, { task: options.task, now: options.now === true });
    },
  )
    .option("--task <id>", "the task (default: the only one that is running)")
    .option("--now", "interrupt the agent, so that it reads this at once");
  command(
    program,
    "comment <build> <text...>",
    "comment on a build's work: a finding for the wave's fixer, or a task's next attempt",
    async (context, [name, ...words], { file, line, task }) => {
      const { comment } = await import("./commands/comment.ts");
      return comment(context, name, words, { file, line, task });
    },
  )
    .option("--file <path>", "the file it is about")
    .option("--line <number>", "the line, or the first and last of several: 3-7")
    .option("--task <id>", "give it to this task's next attempt");
  command(
    program,
    "memory [action] [file]",
    "show, edit or set FILE: what a project remembers of its builds, and tells its agents",
    async (context, [action = "show", file]) => {
      const { memory } = await import("./commands/memory.ts");
      return memory(context, action, file);
    },
  );
  command(program, "mcp", "offer these commands to another agent over MCP, on stdin and stdout", async (context) => {
    const { mcp } = await import("./commands/mcp.ts");
    return mcp(context);
  });
}
