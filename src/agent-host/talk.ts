// Gives an agent what people say to it while it works.
//
// HT3. A message is given to the agent once. Our own agent takes it between two tool calls; any
// other gets it with its next prompt. An urgent one interrupts the turn, so that the next prompt
// comes at once.
import type { AcpSession } from "./acp.ts";
import type { AgentTurn } from "./agent-fault.ts";
import type { Events } from "./events.ts";
import type { PromptImage } from "./images.ts";
import type { Inbox } from "./inbox.ts";
import type { AgentMessage } from "./protocol.ts";

const maxShownLength = 500;

export interface Talk {
  /** Prompts the agent with a text and the waiting messages; resolves at the end of its turn. */
  prompt(text: string, images: readonly PromptImage[]): Promise<AgentTurn>;
  /** Whether messages wait for the next prompt. */
  hasNews(): boolean;
  /** Returns the messages that went with the last prompt. */
  lastNews(): readonly string[];
}

export function createTalk({ session, events, inbox }: { session: AcpSession; events: Events; inbox: Inbox }): Talk {
  const delivered = (message: AgentMessage): void => {
    inbox.remove(message);
    const { message: name, by, text } = message;
    events.report({ kind: "told", message: name, by, text: events.shorten(text, maxShownLength) });
  };
  let lastNews: readonly string[] = [];
  return {
    hasNews: () => inbox.waiting().length > 0,
    lastNews: () => lastNews,
    async prompt(text, images) {
      const news = inbox.waiting();
      for (const message of news) delivered(message);
      lastNews = news.map(wordsOf);
      const offered: Promise<void>[] = [];
      const stop = inbox.onMessage((message) => {
        if (message.urgent) session.cancel().catch(() => undefined);
        else if (session.tell !== null) {
          // If the turn ends first, the message stays in the inbox for the next prompt.
          offered.push(
            session.tell(wordsOf(message)).then(
              () => delivered(message),
              () => undefined,
            ),
          );
        }
      });
      const turn = await session.prompt([text, ...lastNews].filter((part) => part !== "").join("\n\n"), images);
      stop();
      await Promise.all(offered);
      return turn;
    },
  };
}

const wordsOf = ({ by, text }: AgentMessage): string =>
  `${by}, who is watching your work, says:\n\n${text}\n\nTake this into account and continue your task.`;
