import type { BuildView } from "../coordinator/build/read-build.ts";
import { messageOf } from "../domain/errors.ts";
import { openQuestions } from "./view/question-lines.ts";

/** A source of key presses; `process.stdin` is one. */
export interface KeySource {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
  on(event: "data", listener: (data: Buffer) => void): unknown;
  off(event: "data", listener: (data: Buffer) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

export interface AnswerKeys {
  /** Updates the open questions from the build; keys are read while there are any. */
  look(view: BuildView): void;
  close(): void;
}

const interrupt = "\x03";

/**
 * Answers agents' questions by key press. Puts the terminal in raw mode only while a question is
 * open; Ctrl-C then arrives as a key too.
 */
export function createAnswerKeys(
  keys: KeySource,
  given: {
    answer: (number: number, answer: "allow" | "deny") => Promise<void>;
    interrupted: () => void;
    warn: (message: string) => void;
  },
): AnswerKeys {
  const answered = new Set<number>();
  let open: number[] = [];
  let reading = false;
  const onData = (data: Buffer): void => {
    for (const key of data.toString("utf8")) {
      if (key === interrupt) given.interrupted();
      const answer = key === "a" ? "allow" : key === "d" ? "deny" : null;
      const number = open.find((one) => !answered.has(one));
      if (answer === null || number === undefined) continue;
      answered.add(number);
      // The question may be answered already or too late. If the database was away, it is still
      // open.
      given.answer(number, answer).catch((error: unknown) => {
        answered.delete(number);
        given.warn(messageOf(error));
      });
    }
  };
  const read = (wanted: boolean): void => {
    if (wanted === reading || keys.isTTY !== true) return;
    reading = wanted;
    keys.setRawMode?.(wanted);
    if (wanted) keys.on("data", onData);
    else keys.off("data", onData);
    if (wanted) keys.resume();
    else keys.pause();
  };
  return {
    look(view) {
      open = openQuestions(view, new Date()).map(({ id }) => id);
      read(open.length > 0);
    },
    close: () => read(false),
  };
}
