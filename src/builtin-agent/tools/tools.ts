import type { Tool } from "ai";
import type { BackgroundPrograms } from "../background.ts";
import { createFileTools } from "./file-tools.ts";
import type { ToolSetting } from "./perform.ts";
import { createRunTools } from "./run-tools.ts";
import { createSearchTools } from "./search-tools.ts";

interface ToolOptions {
  readonly background: BackgroundPrograms;
  readonly seesImages: boolean;
}

/**
 * Creates the tools for work in one tree. Refusals are returned to the model as the tool's answer.
 */
export const createTools = (setting: ToolSetting, options: ToolOptions): Record<string, Tool> => ({
  ...createFileTools(setting, options),
  ...createSearchTools(setting),
  ...createRunTools(setting, options.background),
});
