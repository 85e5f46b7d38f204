import { type Tool, tool } from "ai";
import { z } from "zod";

/** One entry of the agent's todo list. */
export interface TodoEntry {
  readonly content: string;
  readonly status: "pending" | "in_progress" | "completed";
}

/** Creates the tool by which the agent shows its todo list to people. */
export const createTodoTool = (showTodo: (entries: readonly TodoEntry[]) => Promise<void>): Tool =>
  tool({
    description: "Shows your todo list to people. Give the whole list each time, and keep it short.",
    inputSchema: z.object({
      entries: z.array(z.object({ content: z.string(), status: z.enum(["pending", "in_progress", "completed"]) })),
    }),
    execute: async ({ entries }) => {
      await showTodo(entries);
      return "shown";
    },
  });
