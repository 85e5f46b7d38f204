import { type Tool, tool } from "ai";
import { z } from "zod";
import type { BackgroundPrograms } from "../background.ts";
import { createFileTools } from "./file-tools.ts";
import type { ToolSetting } from "./perform.ts";
import { createRunTools } from "./run-tools.ts";
import { createSearchTools } from "./search-tools.ts";

export interface ToolOptions {
  readonly background: BackgroundPrograms;
  readonly seesImages: boolean;
}

/**
 * Creates the tools of the built-in agent for one tree. Refusals are returned to the model as the
 * tool's answer.
 */
export const createTools = (setting: ToolSetting, options: ToolOptions): Record<string, Tool> => ({
  ...createFileTools(setting, options),
  ...createSearchTools(setting),
  ...createRunTools(setting, options.background),
  todo: tool({
    description: "Shows people your list of what is to be done. Give the whole list each time, and keep it short.",
    inputSchema: z.object({
      entries: z.array(z.object({ content: z.string(), status: z.enum(["pending", "in_progress", "completed"]) })),
    }),
    execute: async ({ entries }) => {
      await setting.showTodo(entries);
      return "shown";
    },
  }),
});
