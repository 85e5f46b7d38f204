import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Events } from "./events.ts";
import { type AgentHostRequest, type QuestionOption, questionEnds } from "./protocol.ts";

// Q1. What is asked stands in the output, so it is found by whoever takes the job over; the answer
// is a file, so it is found by whoever waits. Neither needs the one who was there when it was
// asked.
// Q2. Who waits for a person is not silent: the clock of silence stands still meanwhile.

interface Question {
  readonly title: string;
  readonly action: string;
  /** Why it may not be done without being asked about. */
  readonly reason: string;
  readonly options: readonly QuestionOption[];
}

interface Answer {
  readonly allowed: boolean;
  /** In words: who answered, or that nobody did. */
  readonly reason: string;
  /** The question's name. */
  readonly question: string;
}

export interface Questions {
  /** Asks a person and waits; null when nobody is there to be asked. */
  ask(question: Question): Promise<Answer> | null;
}

const lookMs = 200;
const longestTold = 500;
const mostOptions = 10;

/**
 * `hold` stops the clock of silence and returns what starts it again; `over` is whether the agent
 * is being ended.
 */
export function createQuestions(
  { ask }: Pick<AgentHostRequest, "ask">,
  { events, hold, over }: { events: Events; hold: () => () => void; over: () => boolean },
): Questions {
  let asked = 0;
  return {
    ask(question) {
      if (ask === null) return null;
      asked += 1;
      const name = `q${asked}`;
      mkdirSync(ask.folder, { recursive: true });
      const { waitMs } = ask;
      events.tell({ kind: "question", name, waitMs, ...shortened(question) });
      return untilAnswered({ file: join(ask.folder, `${name}.json`), name, waitMs, over }).finally(hold());
    },
  };
}

/** Whatever an agent calls it: a line that is too long is cut before anybody reads it. */
const shortened = ({ title, action, reason, options }: Question): Question => ({
  title: title.slice(0, longestTold),
  action,
  reason: reason.slice(0, longestTold),
  options: options.slice(0, mostOptions).map(({ name, kind }) => ({ name: name.slice(0, longestTold), kind })),
});

async function untilAnswered(waiting: {
  file: string;
  name: string;
  waitMs: number;
  over: () => boolean;
}): Promise<Answer> {
  const { file, name, waitMs, over } = waiting;
  const deadline = performance.now() + waitMs;
  for (;;) {
    const found = readAnswer(file);
    if (found !== null) {
      const allowed = found.answer === "allow";
      return { allowed, question: name, reason: `${allowed ? "allowed" : "denied"} by ${found.by}` };
    }
    if (over()) return { allowed: false, question: name, reason: questionEnds.ended };
    if (performance.now() > deadline) return { allowed: false, question: name, reason: questionEnds.unanswered };
    await new Promise((done) => setTimeout(done, lookMs));
  }
}

/** Null while there is none: it is written whole or not at all. */
function readAnswer(file: string): { answer: string; by: string } | null {
  try {
    const { answer, by } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    return { answer: String(answer), by: String(by) };
  } catch {
    return null;
  }
}
