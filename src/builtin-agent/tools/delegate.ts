// Helpers: parts of the task that the agent gives to a separate conversation.
//
// BH1. A helper calls the same model through the same proxy, so its calls count in the same budget
// and end with the attempt.
// BH2. A helper has no helpers, no todo list, and cannot submit the task's result.
import { type Tool, tool } from "ai";
import { z } from "zod";
import { type Conversation, errorText, takeTurn } from "../conversation.ts";
import { Refused } from "../files.ts";
import { createMessageQueue } from "../message-queue.ts";
import type { ChosenModel } from "../models.ts";
import { helperPrompt, surroundings } from "../prompt.ts";
import { lastTextOf } from "../window.ts";
import { answerRefusals, type ToolSetting } from "./perform.ts";

const maxHelpers = 4;
/** How many answers of a helper that were cut at the output limit are continued. */
const maxContinues = 3;

interface DelegateParts {
  readonly tree: string;
  readonly chosen: ChosenModel;
  readonly signal: AbortSignal;
  readonly perform: ToolSetting["perform"];
  /** Creates the tools of a helper; its calls are shown under its name. */
  readonly createHelperTools: (helper: string) => Record<string, Tool>;
  /** Shows a helper's report to people. */
  readonly showReport: (text: string) => Promise<void>;
}

/** Creates the tool that gives a part of the task to a helper and returns its report. */
export function createDelegateTool(parts: DelegateParts): Tool {
  const { perform, createHelperTools, showReport } = parts;
  let count = 0;
  let working = 0;
  return tool({
    description:
      "Gives a part of your task to a helper and returns its report. The helper works in your tree with your tools, in a conversation of its own: it knows only your instructions, and you get only its report. Good for a part that needs much reading and has a short answer. Helpers that you start in one step work at the same time (at most 4); give those that change something different files.",
    inputSchema: z.object({ title: z.string().min(1), instructions: z.string().min(1) }),
    execute: (input, { toolCallId: id }) =>
      answerRefusals(() =>
        perform({ id, input, title: `Delegate ${input.title}`, action: "think", paths: [] }, async () => {
          if (working >= maxHelpers) throw new Refused(`${maxHelpers} helpers are working: wait for their reports`);
          count += 1;
          working += 1;
          const name = `helper ${count}`;
          try {
            const report = await runHelper(parts, input.instructions, createHelperTools(name));
            await showReport(`${name}: ${report}\n`);
            return report;
          } finally {
            working -= 1;
          }
        }),
      ),
  });
}

/** Works on the instructions to their end; returns the helper's last words. */
async function runHelper(
  { tree, chosen, signal }: DelegateParts,
  instructions: string,
  tools: Record<string, Tool>,
): Promise<string> {
  const content = `${await surroundings(tree, signal)}\n\n${helperPrompt}\n\n${instructions}`;
  const conversation: Conversation = { messages: [{ role: "user", content }] };
  const turn = { conversation, chosen, tools, signal, queue: createMessageQueue(), ...unseen };
  for (let continues = 0; ; continues += 1) {
    const end = await takeTurn(turn).catch((error: unknown) => {
      throw signal.aborted ? error : new Refused(`the helper failed: ${errorText(error)}`);
    });
    const report = lastTextOf(conversation.messages);
    if (end === "end_turn") return report === "" ? "[the helper ended without a report]" : report;
    if (end !== "max_tokens" || continues === maxContinues) return `${report}\n[the helper did not finish: ${end}]`;
    conversation.messages = [...conversation.messages, { role: "user", content: "Continue where you were cut off." }];
  }
}

/** A helper's conversation is neither saved nor shown, only its tool calls and its report. */
const unseen = { save: () => undefined, say: async () => undefined, reportUsage: async () => undefined };
