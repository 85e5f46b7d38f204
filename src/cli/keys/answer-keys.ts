import { openQuestions } from "../../api/questions.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { messageOf } from "../../domain/errors.ts";
import { createLetterReader, type KeySource, type LetterQuestion, type LetterReaderParts } from "./letter-reader.ts";

export interface AnswerKeys {
  /** Updates the open questions from the build; the terminal is read while there are any. */
  look(view: BuildView): void;
  close(): void;
}

interface AnswerKeysParts extends LetterReaderParts {
  readonly answer: (number: number, answer: "allow" | "deny") => Promise<void>;
  readonly warn: (message: string) => void;
}

const letters = ["a", "d"];

/** Answers agents' questions, the oldest first, by a letter and Enter. */
export function createAnswerKeys(keys: KeySource, parts: AnswerKeysParts): AnswerKeys {
  const answered = new Set<number>();
  const reader = createLetterReader(keys, parts);
  let open: number[] = [];
  const askNext = (): void => {
    const number = open.find((one) => !answered.has(one));
    reader.ask(number === undefined ? null : questionOf(number));
  };
  const questionOf = (number: number): LetterQuestion => {
    const answer = (letter: string): void => {
      answered.add(number);
      askNext();
      // The question may be answered already or too late. If the database was away, it is still
      // open.
      parts.answer(number, letter === "a" ? "allow" : "deny").catch((error: unknown) => {
        answered.delete(number);
        parts.warn(messageOf(error));
        askNext();
      });
    };
    return { name: `question ${number}`, letters, answer };
  };
  return {
    look(view) {
      open = openQuestions(view, new Date()).map(({ id }) => id);
      askNext();
    },
    close: () => reader.close(),
  };
}
