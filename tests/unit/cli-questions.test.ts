import { describe, expect, it } from "vitest";
import { createAnswerKeys, type KeySource } from "../../src/cli/answer-keys.ts";
import { renderLive } from "../../src/cli/view/live.ts";
import { questionNews } from "../../src/cli/view/question-lines.ts";
import { plainText } from "../../src/cli/view/segments.ts";
import { statusJson, statusLines } from "../../src/cli/view/status-lines.ts";
import type { QuestionView } from "../../src/coordinator/build/read-build.ts";
import type { Input } from "../../src/store/port.ts";
import { attempt, moment, view, wave } from "./cli-views.ts";

const asked = (id: number, given: Partial<Input<QuestionView>> = {}) =>
  ({
    id,
    attemptId: null,
    role: "critic",
    text: "Write ../x",
    reason: "../x is outside of its tree",
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
const told = (before: readonly QuestionView[] | null, after: readonly QuestionView[]): string[] =>
  questionNews(before === null ? null : view({ questions: before }), view({ questions: after }), command).map(
    ({ text }) => text,
  );

describe("what agents ask a person", () => {
  it("stands in the live view with the keys that answer it, who asks, and how long is left", () => {
    const now = moment(20);
    const given = view({ waves: [ofTask], questions: [asked(7, { attemptId: "att_1" }), asked(8)] });
    const rows = renderLive(given, { rows: 40, now, frame: 0 }).map((row) => plainText(row).trimEnd());
    expect(rows).toContain("  ? api asks: Write ../x (../x is outside of its tree)");
    expect(rows).toContain("    a: allow it once  d: deny it  denied in 9:50  (1 more after it)");
    const over = renderLive(view({ questions: [asked(7, answered)] }), { rows: 40, now, frame: 0 });
    expect(over.map(plainText).join("\n")).not.toContain("asks:");
  });

  it("is told once when it is asked, with the command that answers it, and once when it is over", () => {
    const question = "  question 7: critic asks: Write ../x (../x is outside of its tree)";
    expect(told(null, [asked(7)])).toEqual([`${question}; answer: wavesmith answer bld_1 7 --allow (or --deny)`]);
    expect(told([asked(7)], [asked(7)])).toEqual([]);
    expect(told([asked(7)], [asked(7, answered)])).toEqual(["  question 7: allowed by ada"]);
    expect(told([asked(7)], [asked(7, { closedAt: moment(15) })])).toEqual([
      "  question 7: denied because nobody answered",
    ]);
    expect(told(null, [asked(7, answered)])).toEqual([question, "  question 7: allowed by ada"]);
  });

  it("stands in the status while it is open, and not once its time is over", () => {
    const options = { interrupted: false, repository: "/r", hints: { command, rewrite: (text: string) => text } };
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
    const typed = terminal(isTTY);
    const keys = createAnswerKeys(typed.keys, {
      answer: (number, what) => {
        said.push(`${what} ${number}`);
        return answer(number, what);
      },
      interrupted: () => said.push("interrupted"),
      warn: (message) => said.push(message),
    });
    return { ...typed, answers: keys, said };
  };

  it("are taken while something is asked and not before or after, one question each", () => {
    const { answers, said, raw, type, listens } = setUp();
    answers.look(open());
    expect(listens()).toBe(false);
    answers.look(open(3, 4));
    type("x");
    type("ad");
    type("a");
    expect(said).toEqual(["allow 3", "deny 4"]);
    answers.look(open());
    expect([listens(), raw]).toEqual([false, [true, false]]);
  });

  it("let Ctrl-C through, which the terminal then tells as a key", () => {
    const { answers, said, type } = setUp();
    answers.look(open(3));
    type("\x03");
    expect(said).toEqual(["interrupted"]);
    answers.close();
  });

  it("may be typed again when the answer could not be given", async () => {
    const { answers, said, type } = setUp(true, () => Promise.reject(new Error("the database is away")));
    answers.look(open(3));
    type("a");
    await expect.poll(() => said).toEqual(["allow 3", "the database is away"]);
    type("d");
    expect(said.at(-1)).toBe("deny 3");
  });

  it("are left alone where there is no terminal", () => {
    const { answers, listens } = setUp(false);
    answers.look(open(3));
    expect(listens()).toBe(false);
  });
});
