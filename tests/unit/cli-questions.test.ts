import { describe, expect, it } from "vitest";
import { statusJson } from "../../src/api/build-status.ts";
import { createAnswerKeys } from "../../src/cli/keys/answer-keys.ts";
import type { KeySource } from "../../src/cli/keys/letter-reader.ts";
import { renderLive } from "../../src/cli/view/live.ts";
import { questionNews } from "../../src/cli/view/question-lines.ts";
import { plainText } from "../../src/cli/view/segments.ts";
import { statusLines } from "../../src/cli/view/status-lines.ts";
import type { QuestionView } from "../../src/coordinator/build/build-view.ts";
import type { Input } from "../../src/store/port.ts";
import { attempt, moment, view, wave } from "./cli-views.ts";

const asked = (id: number, given: Partial<Input<QuestionView>> = {}) =>
  ({
    id,
    attemptId: null,
    role: "critic",
    text: "Write ../x",
    reason: "../x is outside its tree",
    options: [{ name: "Once", kind: "allow_once" }],
    askedAt: moment(10),
    deadlineAt: moment(610),
    answer: null,
    answeredBy: null,
    answeredAt: null,
    closedAt: null,
    ...given,
  }) as QuestionView;
const answered = { answer: "allow", answeredBy: "ada", answeredAt: moment(15), closedAt: moment(15) } as const;
const ofTask = wave({ attempts: [attempt({ id: "att_1", taskKey: "api", status: "running", outcome: null })] });
const command = (words: string): string => `wavesmith ${words}`;
const changedLines = (before: readonly QuestionView[] | null, after: readonly QuestionView[]): string[] =>
  questionNews(before === null ? null : view({ questions: before }), view({ questions: after }), command).map(
    ({ text }) => text,
  );

describe("questions of agents to a person", () => {
  it("are in the live view, with the keys that answer them, who asks, and how long is left", () => {
    const now = moment(20);
    const given = view({ waves: [ofTask], questions: [asked(7, { attemptId: "att_1" }), asked(8)] });
    const rows = renderLive(given, { rows: 40, columns: 100, now, frame: 0, typed: "a" }).map((row) =>
      plainText(row).trimEnd(),
    );
    expect(rows).toContain("  ? api asks: Write ../x (../x is outside its tree)");
    expect(rows).toContain("    a and Enter: allow it once  d and Enter: deny it  denied in 9:50  (1 more after it)");
    expect(rows).toContain("    > a");
    const over = renderLive(view({ questions: [asked(7, answered)] }), { rows: 40, columns: 100, now, frame: 0 });
    expect(over.map(plainText).join("\n")).not.toContain("asks:");
  });

  it("are printed once when asked, with the command that answers them, and once when closed", () => {
    const question = "  question 7: critic asks: Write ../x (../x is outside its tree)";
    expect(changedLines(null, [asked(7)])).toEqual([
      `${question}; answer: wavesmith answer bld_1 7 --allow (or --deny)`,
    ]);
    expect(changedLines([asked(7)], [asked(7)])).toEqual([]);
    expect(changedLines([asked(7)], [asked(7, answered)])).toEqual([
      "  question 7: allowed by ada: Write ../x (critic)",
    ]);
    expect(changedLines([asked(7)], [asked(7, { closedAt: moment(15) })])).toEqual([
      "  question 7: denied because nobody answered: Write ../x (critic)",
    ]);
    expect(changedLines(null, [asked(7, answered)])).toEqual([
      question,
      "  question 7: allowed by ada: Write ../x (critic)",
    ]);
  });

  it("are in the status while they are open, but not once their time is over", () => {
    const options = {
      interrupted: false,
      ...{ repository: "/r", authority: "/r" },
      hints: { command, rewrite: (text: string) => text },
    };
    const now = moment(20);
    const given = view({ questions: [asked(7), asked(8, answered)] });
    const lines = statusLines(given, { ...options, now }).map(({ text }) => text);
    expect(lines.filter((line) => line.startsWith("question"))).toHaveLength(1);
    expect(statusJson(given, { ...options, now })).toMatchObject({ questions: [{ id: 7, from: "critic" }] });
    expect(statusJson(given, { ...options, now: moment(700) })).toMatchObject({ questions: [] });
  });
});

describe("keys that answer", () => {
  function terminal(isTTY = true) {
    let listener: ((data: Buffer) => void) | null = null;
    const raw: boolean[] = [];
    const keys: KeySource = {
      isTTY,
      setRawMode: (mode) => raw.push(mode),
      on: (_, given) => {
        listener = given;
      },
      off: () => {
        listener = null;
      },
      resume: () => undefined,
      pause: () => undefined,
    };
    return { keys, raw, type: (text: string) => listener?.(Buffer.from(text)), listens: () => listener !== null };
  }
  const open = (...ids: number[]) =>
    view({ questions: ids.map((id) => asked(id, { deadlineAt: new Date(Date.now() + 60_000) })) });
  const setUp = (isTTY = true, answer: (number: number, answer: string) => Promise<void> = async () => undefined) => {
    const said: string[] = [];
    const shown: string[] = [];
    const drains: (() => void)[] = [];
    const typed = terminal(isTTY);
    const keys = createAnswerKeys(typed.keys, {
      answer: (number, what) => {
        said.push(`${what} ${number}`);
        return answer(number, what);
      },
      typing: (line) => shown.push(line),
      interrupted: () => said.push("interrupted"),
      warn: (message) => said.push(message),
      drained: () => new Promise((resolve) => drains.push(resolve)),
    });
    const drain = async (): Promise<void> => {
      for (const drained of drains.splice(0)) drained();
      await Promise.resolve();
    };
    return { ...typed, answers: keys, said, shown, drain };
  };

  it("are accepted only while a question is open, a letter and Enter for each", async () => {
    const { answers, said, shown, raw, type, listens, drain } = setUp();
    answers.look(open());
    expect(listens()).toBe(false);
    answers.look(open(3, 4));
    await drain();
    type("a");
    expect([said, shown]).toEqual([[], ["a"]]);
    type("\r");
    await drain();
    type("x\rdd\r\x7f");
    type("ad\x7f\x7fd\r");
    type("a\r");
    expect(said).toEqual(["allow 3", "deny 4"]);
    answers.look(open());
    expect([listens(), raw]).toEqual([false, [true, false]]);
  });

  it("do not answer a question that was asked after they were pressed", async () => {
    const { answers, said, type, drain } = setUp();
    answers.look(open(3));
    type("a\r"); // Typed before the question.
    await drain();
    type("a"); // Half typed, when another question takes its place.
    answers.look(open(4));
    type("a\r");
    await drain();
    type("\r");
    expect(said).toEqual([]);
    type("d\r");
    expect(said).toEqual(["deny 4"]);
  });

  it("are letters, not the letters in the sequences of arrow keys", async () => {
    const { answers, said, type, drain } = setUp();
    answers.look(open(3));
    await drain();
    type("\x1b[A\x1bOa\r\x1b[D\r");
    expect(said).toEqual([]);
    type("A\r");
    expect(said).toEqual(["allow 3"]);
  });

  it("pass Ctrl-C through at once, even if the terminal reports it as a key", () => {
    const { answers, said, type } = setUp();
    answers.look(open(3));
    type("\x03");
    expect(said).toEqual(["interrupted"]);
    answers.close();
  });

  it("may be typed again if the answer could not be delivered", async () => {
    const { answers, said, type, drain } = setUp(true, () => Promise.reject(new Error("the database is away")));
    answers.look(open(3));
    await drain();
    type("a\r");
    await expect.poll(() => said).toEqual(["allow 3", "the database is away"]);
    await drain();
    type("d\r");
    expect(said.at(-1)).toBe("deny 3");
  });

  it("are not read without a terminal", () => {
    const { answers, listens } = setUp(false);
    answers.look(open(3));
    expect(listens()).toBe(false);
  });
});
