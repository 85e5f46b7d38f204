import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Events } from "./events.ts";
import { type AgentHostRequest, type QuestionOption, questionEnds } from "./protocol.ts";

// AQ1. The question is in the output, where the process that takes over the job finds it; the
// answer is a file, where the waiting agent host finds it. Neither depends on the process that was
// watching when it was asked.
// AQ2. An agent that waits for a person is not silent: the silence limit is suspended meanwhile.

interface Question {
  readonly title: string;
  readonly action: string;
  /** Why it needs permission. */
  readonly reason: string;
  readonly options: readonly QuestionOption[];
}

interface Answer {
  readonly allowed: boolean;
  /** The person who answered, or a note that nobody did. */
  readonly reason: string;
  /** The question's name. */
  readonly question: string;
}

export interface Questions {
  /** Asks a person and waits for the answer; null when nobody is there to ask. */
  ask(question: Question): Promise<Answer> | null;
}

const pollMs = 200;
const maxTextLength = 500;
const maxOptions = 10;

/**
 * Creates the questions of one agent. `hold` suspends the silence limit and returns the function
 * that resumes it; `over` says whether the agent is being ended.
 */
export function createQuestions(
  { ask }: Pick<AgentHostRequest, "ask">,
  { events, hold, over }: { events: Events; hold: () => () => void; over: () => boolean },
): Questions {
  let count = 0;
  return {
    ask(question) {
      if (ask === null) return null;
      count += 1;
      const name = `q${count}`;
      mkdirSync(ask.folder, { recursive: true });
      const { waitMs } = ask;
      events.report({ kind: "question", name, waitMs, ...shortened(question) });
      return untilAnswered({ file: join(ask.folder, `${name}.json`), name, waitMs, over }).finally(hold());
    },
  };
}

/**
 * Shortens the agent's texts, because a line that is too long would be cut off before anybody reads
 * it.
 */
const shortened = ({ title, action, reason, options }: Question): Question => ({
  title: title.slice(0, maxTextLength),
  action,
  reason: reason.slice(0, maxTextLength),
  options: options.slice(0, maxOptions).map(({ name, kind }) => ({ name: name.slice(0, maxTextLength), kind })),
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
    const answer = readAnswer(file);
    if (answer !== null) {
      const allowed = answer.answer === "allow";
      return { allowed, question: name, reason: `${allowed ? "allowed" : "denied"} by ${answer.by}` };
    }
    if (over()) return { allowed: false, question: name, reason: questionEnds.ended };
    if (performance.now() > deadline) return { allowed: false, question: name, reason: questionEnds.unanswered };
    await delay(pollMs);
  }
}

/** Reads an answer; null if there is none yet. The file is written atomically. */
function readAnswer(file: string): { answer: string; by: string } | null {
  try {
    const { answer, by } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    return { answer: String(answer), by: String(by) };
  } catch {
    return null;
  }
}
