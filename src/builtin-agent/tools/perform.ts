import type { Change } from "../files.ts";
import { Refused, type TreeFiles } from "../files.ts";

/** Describes a tool call, for reporting it and asking permission. */
export interface ToolAction {
  readonly id: string;
  readonly title: string;
  readonly action: "read" | "edit" | "search" | "execute" | "fetch" | "think" | "other";
  readonly paths: readonly string[];
  readonly input: unknown;
  readonly change?: Change;
  /** Whether this result is shown as a failure. */
  readonly hasFailed?: (result: unknown) => boolean;
}

export interface ToolSetting {
  readonly tree: string;
  readonly files: TreeFiles;
  readonly signal: AbortSignal;
  /** Reports an action, asks permission where needed, and then runs `work`. */
  readonly perform: <Result>(action: ToolAction, work: () => Promise<Result> | Result) => Promise<Result>;
}

/** Returns to the model what it can fix; any other error ends the turn. */
export async function answerRefusals<Result>(work: () => Promise<Result> | Result): Promise<Result | string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refused) return `not done: ${error.message}`;
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code === "string" && /^E[A-Z]+$/.test(code)) return `not done: ${(error as Error).message}`;
    throw error;
  }
}
