// Reads answers of one letter, or a line of text, and Enter from a terminal.
//
// LT1. Keys pressed before a question was asked never answer it: what the terminal holds when a
// question opens is read and dropped, and so is a line that was half typed for another question.
// LT2. One key alone answers nothing; only a letter or a text with Enter does.

/** A source of key presses; `process.stdin` is one. */
export interface KeySource {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
  on(event: "data", listener: (data: Buffer) => void): unknown;
  off(event: "data", listener: (data: Buffer) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

/** A question that a letter answers, or any text. */
export interface LetterQuestion {
  /** Names the question: another name is another question. */
  readonly name: string;
  readonly letters: readonly string[] | "any";
  readonly answer: (letter: string) => void;
}

export interface LetterReader {
  /** Asks this question instead of the one before; null asks nothing. Safe to call again. */
  ask(question: LetterQuestion | null): void;
  close(): void;
}

export interface LetterReaderParts {
  /** Called with the line as it is typed, so that it can be shown. */
  readonly typing: (line: string) => void;
  /** Called for Ctrl-C, which arrives as a key in raw mode. */
  readonly interrupted: () => void;
  /** Resolves when everything typed before it was called has been read. */
  readonly drained?: () => Promise<void>;
}

const interrupt = "\x03";
const eraseLine = "\x15";
const erase = new Set(["\x7f", "\b"]);
const enter = new Set(["\r", "\n"]);
/** Arrow keys and the like, which contain letters. */
const sequences = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?/g;

const drainMs = 300;

/**
 * Waits a moment for keys pressed just before. The wait ends after a turn of the event loop has
 * read the terminal, so that a process that was busy meanwhile still drops what was typed.
 */
const usualDrain = (): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(() => setImmediate(resolve), drainMs);
  });

/** Creates a reader. The terminal is in raw mode only while there is a question. */
export function createLetterReader(keys: KeySource, parts: LetterReaderParts): LetterReader {
  const { typing, interrupted, drained = usualDrain } = parts;
  let currentQuestion: LetterQuestion | null = null;
  let isReady = false;
  let opened = 0;
  let line = "";
  let reading = false;
  const show = (text: string): void => {
    if (text === line) return;
    line = text;
    typing(line);
  };
  const take = (key: string): void => {
    if (key === interrupt) interrupted();
    else if (currentQuestion === null || !isReady) return;
    else if (erase.has(key)) show(line.slice(0, -1));
    else if (key === eraseLine) show("");
    else if (enter.has(key)) enterLine(currentQuestion);
    else if (key >= " ") show(line + key);
  };
  const enterLine = ({ letters, answer }: LetterQuestion): void => {
    const text = line.trim();
    const letter = text.toLowerCase();
    show("");
    if (letters === "any" && text !== "") answer(text);
    else if (letters !== "any" && letters.includes(letter)) answer(letter);
  };
  const onData = (data: Buffer): void => {
    for (const key of data.toString("utf8").replace(sequences, "")) take(key);
  };
  const read = (wanted: boolean): void => {
    if (wanted === reading) return;
    reading = wanted;
    keys.setRawMode?.(wanted);
    if (wanted) keys.on("data", onData);
    else keys.off("data", onData);
    if (wanted) keys.resume();
    else keys.pause();
  };
  const ask = (question: LetterQuestion | null): void => {
    if (keys.isTTY !== true) return;
    const isSame = question !== null && question.name === currentQuestion?.name;
    currentQuestion = question;
    if (isSame) return;
    show("");
    isReady = false;
    opened += 1;
    const own = opened;
    read(question !== null);
    if (question === null) return;
    void drained().then(() => {
      if (own === opened) isReady = true;
    });
  };
  return { ask, close: () => ask(null) };
}
