import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import type { Interrupts } from "../interrupts.ts";
import { createAnswerKeys } from "../keys/answer-keys.ts";
import { requester } from "../request/requester.ts";
import type { Presenter } from "../view/presenter.ts";

/** Whether a person sees the agents' questions and can answer them by key. */
export const isInteractive = ({ out, json }: Context): boolean => out.live && !json && process.stdin.isTTY === true;

interface Watching {
  readonly context: Context;
  readonly presenter: Presenter;
  readonly interrupts: Interrupts;
}

/** A shown build whose questions the person at this terminal can answer by key. */
interface Answering {
  /** Shows the build; the terminal is read while there are questions. */
  readonly presenter: Presenter;
  close(): void;
}

type Answer = Parameters<SteeredBuilds["answer"]>[1];

/** Lets the person at this terminal answer agents' questions; without one, only shows them. */
export function openAnswering(
  { context, presenter, interrupts }: Watching,
  answer: (given: Answer) => Promise<unknown>,
): Answering {
  if (!isInteractive(context)) return { presenter, close: () => undefined };
  // A closed terminal is reported by its signal.
  process.stdin.on("error", () => undefined);
  const keys = createAnswerKeys(process.stdin, {
    async answer(number, decision) {
      await answer({ number, answer: decision, by: requester() });
    },
    typing: (line) => presenter.typing(line),
    interrupted: () => interrupts.raise(),
    warn: (message) => presenter.warn(message),
  });
  const view = (before: BuildView | null, after: BuildView, label?: string): void => {
    keys.look(after);
    presenter.view(before, after, label);
  };
  return { presenter: { ...presenter, view }, close: () => keys.close() };
}
