import type { AgentTurn } from "./agent-fault.ts";
import type { AgentProcess } from "./agent-process.ts";
import type { Events } from "./events.ts";
import type { AgentHostRequest, ChatLine } from "./protocol.ts";
import { createQuestions } from "./questions.ts";

interface ChatParts {
  readonly request: AgentHostRequest;
  readonly agent: AgentProcess;
  readonly events: Events;
  /** The person's input, one `ChatLine` as JSON per line. */
  readonly lines: AsyncIterable<string>;
}

/**
 * Continues an agent's session with a person, and reports each turn with an `end`. Resolves when
 * there are no more lines.
 */
export async function chat({ lines, ...parts }: ChatParts): Promise<AgentTurn> {
  const { request, events } = parts;
  const { openSession } = await import("./acp.ts");
  const nothing = (): void => undefined;
  const questions = createQuestions(request, { events, hold: () => nothing, over: () => false });
  const session = await openSession({ ...parts, questions, resultServer: null, onSign: nothing, onLoop: nothing });
  let turns = Promise.resolve();
  const take = async (prompt: string): Promise<void> => {
    const { end, detail } = await session.prompt(prompt, []);
    events.report({ kind: "end", end, detail });
  };
  for await (const line of lines) {
    const said = JSON.parse(line) as ChatLine;
    if ("prompt" in said) turns = turns.then(() => take(said.prompt));
    else await session.cancel().catch(nothing); // The agent is gone; its turn says so.
  }
  await turns;
  session.close();
  return { end: "finished", detail: "" };
}
