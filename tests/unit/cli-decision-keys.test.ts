import { describe, expect, it } from "vitest";
import { askDecision, openDecisions } from "../../src/cli/keys/decision-keys.ts";
import { view, wave } from "./cli-views.ts";

const build = view({}).build;

describe("decisions by keys", () => {
  it("are open for a waiting wave and a failed build alone", () => {
    const of = (status: typeof build.status, waveStatus: "waiting" | "passed") =>
      openDecisions(view({ build: { ...build, status }, waves: [wave({ status: waveStatus })] }));
    expect(of("waiting", "waiting")).toEqual(["approve", "reject"]);
    expect(of("waiting", "passed"), "rolled back").toEqual([]);
    expect(of("failed", "passed")).toEqual(["retry"]);
    expect(of("completed", "passed")).toEqual([]);
    expect(of("cancelled", "passed")).toEqual([]);
  });

  function asked(open: Parameters<typeof askDecision>[1]) {
    let listener: ((data: Buffer) => void) | null = null;
    const said: string[] = [];
    const drains: (() => void)[] = [];
    const stop = new AbortController();
    const keys = {
      isTTY: true,
      on: (_: "data", given: (data: Buffer) => void) => {
        listener = given;
      },
      off: () => {
        listener = null;
      },
      resume: () => undefined,
      pause: () => undefined,
    };
    const decision = askDecision(keys, open, {
      say: (text) => said.push(text),
      typing: () => undefined,
      interrupted: () => stop.abort(),
      signal: stop.signal,
      drained: () => new Promise((resolve) => drains.push(resolve)),
    });
    const drain = async (): Promise<void> => {
      for (const drained of drains.splice(0)) drained();
      await Promise.resolve();
    };
    return { decision, said, drain, type: (text: string) => listener?.(Buffer.from(text)), listens: () => listener };
  }

  it("approve by a letter and Enter, typed after the question", async () => {
    const { decision, said, drain, type, listens } = asked(["approve", "reject"]);
    expect(said).toEqual(["a and Enter: approve  r and Enter: reject  Ctrl-C: leave it"]);
    type("r\rr\r"); // Typed before the question.
    await drain();
    type("t\ra\r");
    expect(await decision).toEqual({ is: "approve" });
    expect(listens()).toBeNull();
  });

  it("reject with a reason, which never includes earlier input", async () => {
    const { decision, said, drain, type } = asked(["approve", "reject"]);
    await drain();
    type("r\rnot this\r");
    expect(said.at(-1)).toContain("what has to be different?");
    await drain();
    type("\r");
    type("Call it B\r");
    expect(await decision).toEqual({ is: "reject", reason: "Call it B" });
  });

  it("retry a failed build, and leave it at Ctrl-C", async () => {
    const failed = asked(["retry"]);
    await failed.drain();
    failed.type("a\rt\r");
    expect(await failed.decision).toEqual({ is: "retry" });
    const left = asked(["retry"]);
    left.type("\x03");
    expect(await left.decision).toBeNull();
  });
});
