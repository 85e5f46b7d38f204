import type { BuildView } from "../coordinator/build/read-build.ts";
import { messageOf } from "../domain/errors.ts";
import { openQuestions } from "./view/question-lines.ts";

/** Where keys come from; `process.stdin` is one. */
export interface KeySource {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
  on(event: "data", listener: (data: Buffer) => void): unknown;
  off(event: "data", listener: (data: Buffer) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

export interface AnswerKeys {
  /** Told how the build is now: keys are read while something is asked. */
  look(view: BuildView): void;
  close(): void;
}

const interrupt = "\x03";

/**
 * Answers what agents ask by a key. Only while something is asked are keys taken from the terminal,
 * which then tells of Ctrl-C as a key, too.
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
      // It may be answered elsewhere, or too late, and is still to be asked when the database was
      // away.
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
