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
  command(program, "mcp", "give another agent these verbs over MCP, on stdin and stdout", async (context) => {
    const { mcp } = await import("./commands/mcp.ts");
    return mcp(context);
  });
}
