import { describe, expect, it } from "vitest";
import type { AgentEventBody } from "../../src/agent-host/protocol.ts";
import { activitiesIn, agentEndOf, agentLine, agentText, lastActionIn } from "../../src/agents/agent-output.ts";
import { reportable } from "../../src/coordinator/job/activities.ts";
import { maxActivities } from "../../src/domain/events/activity.ts";

const event = (body: AgentEventBody): string =>
  JSON.stringify({ wavesmith: 1, at: "2026-01-01T00:00:00.000Z", ...body });

describe("what an agent reports about itself", () => {
  it("is read from among ordinary output, as a person sees it", () => {
    const output = [
      event({ kind: "session", agent: "scripted 1", resumed: true, model: "m" }),
      event({ kind: "message", text: "I begin." }),
      event({
        kind: "plan",
        entries: [
          { text: "one", status: "completed" },
          { text: "two", status: "pending" },
        ],
      }),
      event({ kind: "tool", id: "1", title: "Read a.txt", action: "read", status: "pending", paths: [] }),
      event({ kind: "tool", id: "1", title: "Read a.txt", action: "read", status: "completed", paths: [] }),
      event({ kind: "diff", path: "a.txt", added: 2, removed: 1 }),
      event({ kind: "permission", title: "Write /x", action: "edit", allowed: false, reason: "outside" }),
      event({ kind: "usage", used: 1, size: 2, usd: null }),
      "| warning of its own",
      event({ kind: "end", end: "model-error", detail: "400" }),
    ].join("\n");
    expect(agentText(output).split("\n")).toEqual([
      "[scripted 1, m, continues its session]",
      "I begin.",
      "[x] one",
      "[ ] two",
      "> Read a.txt",
      "  a.txt +2 -1",
      "  not allowed: Write /x (outside)",
      "| warning of its own",
      "[model-error: 400]",
    ]);
    expect(agentEndOf(output)).toEqual({ end: "model-error", detail: "400" });
  });

  it("includes a call's real input, with the latest call as the last action", () => {
    const call = { kind: "tool", id: "1", title: "bash", input: "npm test", action: "execute", paths: [] } as const;
    const begun = event({ ...call, status: "pending" });
    const failed = event({ ...call, title: "Read a.txt", input: "a.txt", status: "failed" });
    expect(agentText(begun)).toBe("> bash: npm test");
    expect(agentText(failed)).toBe("> failed: Read a.txt: a.txt");
    expect(lastActionIn(`${begun}\n${event({ kind: "message", text: "hm" })}\n`)).toBe("bash: npm test");
    expect(lastActionIn(`${begun}\n${failed}\n`)).toBe("Read a.txt: a.txt");
    expect(lastActionIn("nothing\n")).toBeNull();
  });

  it("is reported as activities, the same for every agent, within bounds", () => {
    const call = { kind: "tool", id: "1", title: "bash", action: "execute", paths: [] } as const;
    const output = [
      event({ kind: "session", agent: "scripted 1", resumed: false, model: "m" }),
      event({ kind: "message", text: "I begin" }),
      event({ kind: "message", text: "x".repeat(3_000) }),
      event({ ...call, input: "npm test", status: "pending" }),
      "| noise",
      event({ ...call, status: "completed" }),
      event({ kind: "diff", path: "a.txt", added: 2, removed: 1 }),
      event({ kind: "thought", text: "hm" }),
      event({ kind: "end", end: "finished", detail: "" }),
    ].join("\n");
    expect(activitiesIn(`${output}\n`)).toEqual([
      { kind: "message", text: `I begin\n${"x".repeat(1_992)}` },
      { ...call, input: "npm test", status: "pending" },
      { ...call, input: null, status: "completed" },
      { kind: "edit", path: "a.txt", added: 2, removed: 1 },
    ]);
    expect(activitiesIn("nothing\n")).toEqual([]);
  });

  it("is reported for a bounded number of activities of a job, and the last one says so", () => {
    const many = Array.from({ length: 5 }, () => ({ kind: "notice", text: "n" }) as const);
    expect(reportable(many, maxActivities - 5)).toEqual(many);
    const cut = reportable(many, maxActivities - 2);
    expect(cut).toEqual([many[0], { kind: "notice", text: expect.stringContaining("in its log only") }]);
    expect(reportable(many, maxActivities)).toEqual([]);
  });

  it("is never read from a line that only looks like a report", () => {
    for (const line of [
      '{"wavesmith":1,"kind":"end"',
      '{"wavesmith":1,"at":"x","kind":"end","end":"perfect","detail":""}',
      "{}",
    ]) {
      expect(agentLine(line)).toBe(line);
      expect(agentEndOf(line)).toBeNull();
    }
    expect(agentEndOf("")).toBeNull();
  });
});
