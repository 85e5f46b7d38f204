import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyResponse, applyTimer, type JobView, type RunView } from "../../src/engine/runs/transition.ts";
import type { CallResponse, Op } from "../../src/engine/sdk/protocol.ts";

const nowMs = 1_000_000;
const settings = { nowMs, retryDelaysMs: [500, 1_000] };
const run: RunView = { functionId: "app-f", forcePlan: false, pending: [] };
const job: JobView = { stepId: null, attempt: 0, maxAttempts: 3 };
const plain = { kind: "call", stepId: null, dueMs: nowMs };

const op = (kind: string, id: string, more: Partial<Op> = {}): Op => ({ op: kind, id, ...more });
const ops = (...list: Op[]): CallResponse => ({ status: 206, noRetry: false, retryAfter: null, body: list });
const failed = (body: unknown, more: Partial<CallResponse> = {}): CallResponse => ({
  status: 500,
  noRetry: false,
  retryAfter: null,
  body,
  ...more,
});

describe("an answer to a call", () => {
  it("ends the run if it is the function's result", () => {
    const response = { status: 200, noRetry: false, retryAfter: null, body: 7 };
    expect(applyResponse(run, job, response, settings)).toMatchObject({
      end: { status: "completed", result: 7 },
      jobs: [],
    });
    const last = ops(op("StepRun", "a", { data: 1 }), op("RunComplete", "complete", { data: 8 }));
    expect(applyResponse(run, job, last, settings)).toMatchObject({
      end: { status: "completed", result: 8 },
      steps: [{ stepId: "a", value: { data: 1 } }],
    });
  });

  it("with a step that ran keeps its result and goes on; a result of undefined is null", () => {
    expect(applyResponse(run, job, ops(op("StepRun", "a")), settings)).toMatchObject({
      steps: [{ stepId: "a", value: { data: null } }],
      jobs: [plain],
      forcePlan: false,
      retry: null,
      end: null,
    });
  });

  it("with planned steps gives each step its own call, and no plain call", () => {
    const transition = applyResponse(run, job, ops(op("StepPlanned", "a"), op("StepPlanned", "b")), settings);
    expect(transition).toMatchObject({ addPending: ["a", "b"], forcePlan: true, steps: [] });
    expect(transition.jobs).toEqual([
      { kind: "call", stepId: "a", dueMs: nowMs },
      { kind: "call", stepId: "b", dueMs: nowMs },
    ]);
  });

  it("with a lone sleep waits for its end only", () => {
    const transition = applyResponse(run, job, ops(op("Sleep", "nap", { name: "1h2m" })), settings);
    expect(transition).toMatchObject({ addPending: ["nap"], forcePlan: false });
    expect(transition.jobs).toEqual([{ kind: "timer", stepId: "nap", dueMs: nowMs + 62 * 60_000 }]);
  });

  it("waits for the other parallel steps if it ends one of them, and the last one goes on", () => {
    const targeted = { ...job, stepId: "a" };
    const open = { ...run, forcePlan: true, pending: ["a", "b"] };
    expect(applyResponse(open, targeted, ops(op("StepRun", "a")), settings)).toMatchObject({
      removePending: ["a"],
      forcePlan: true,
      jobs: [],
    });
    expect(applyResponse({ ...open, pending: ["a"] }, targeted, ops(op("StepRun", "a")), settings)).toMatchObject({
      removePending: ["a"],
      forcePlan: false,
      jobs: [plain],
    });
  });

  it("lets the function plan a step again if it does not mention that step", () => {
    const open = { ...run, pending: ["a"] };
    const transition = applyResponse(open, { ...job, stepId: "a" }, ops(op("DiscoveryRequest", "x")), settings);
    expect(transition).toMatchObject({ removePending: ["a"], jobs: [plain] });
  });
});

describe("an error", () => {
  it("of a step repeats the same call after the delay of the attempt, and what ran before it is kept", () => {
    const response = ops(op("StepRun", "a"), op("StepError", "b", { error: { message: "no" } }));
    expect(applyResponse(run, { ...job, attempt: 1 }, response, settings)).toMatchObject({
      steps: [{ stepId: "a" }],
      retry: { attempt: 2, dueMs: nowMs + 1_000 },
      jobs: [],
      end: null,
    });
  });

  it("of a step on its last attempt becomes its result, which the function may catch", () => {
    const response = ops(op("StepError", "b", { error: { message: "no" } }));
    expect(applyResponse(run, { ...job, attempt: 2 }, response, settings)).toMatchObject({
      steps: [{ stepId: "b", value: { error: { message: "no" } } }],
      retry: null,
      jobs: [plain],
    });
  });

  it("of the function repeats the call, and ends the run if it is final or was the last attempt", () => {
    expect(applyResponse(run, job, failed("e"), settings)).toMatchObject({
      retry: { attempt: 1, dueMs: nowMs + 500 },
      end: null,
    });
    expect(applyResponse(run, { ...job, attempt: 2 }, failed("e"), settings)).toMatchObject({
      retry: null,
      end: { status: "failed", error: "e" },
    });
    expect(applyResponse(run, job, failed("e", { noRetry: true, status: 400 }), settings)).toMatchObject({
      end: { status: "failed" },
    });
  });

  it("waits as long as it asks: seconds or a date", () => {
    expect(applyResponse(run, job, failed("e", { retryAfter: "90" }), settings).retry?.dueMs).toBe(nowMs + 90_000);
    const date = new Date(nowMs + 30_000).toISOString();
    expect(applyResponse(run, job, failed("e", { retryAfter: date }), settings).retry?.dueMs).toBe(nowMs + 30_000);
    expect(applyResponse(run, job, failed("e", { retryAfter: "soon" }), settings).retry?.dueMs).toBe(nowMs + 500);
  });

  it("keeps parallel steps open", () => {
    const open = { ...run, forcePlan: true, pending: ["a", "b"] };
    expect(applyResponse(open, { ...job, stepId: "a" }, failed("e"), settings)).toMatchObject({
      forcePlan: true,
      removePending: [],
    });
  });
});

describe("an answer the engine does not know", () => {
  it.each(["WaitForEvent", "InvokeFunction", "WaitForSignal", "AIGateway", "Gateway", "DeferAdd", "Step"])(
    "ends the run as failed and names function, step and op: %s",
    (kind) => {
      const transition = applyResponse(
        run,
        job,
        ops(op("StepRun", "a"), op(kind, "x", { displayName: "the step" })),
        settings,
      );
      expect(transition.steps).toEqual([]);
      expect(transition.end).toMatchObject({
        status: "failed",
        error: {
          message: `function app-f uses the op ${kind} of step "the step", which the embedded engine does not support`,
        },
      });
    },
  );

  it("names a race of steps as well", () => {
    const response = ops(op("StepPlanned", "x", { opts: { parallelMode: "race" } }));
    expect(applyResponse(run, job, response, settings).end).toMatchObject({
      status: "failed",
      error: { name: "UnsupportedOpError" },
    });
  });

  it("counts as an error of the attempt if it cannot be read", () => {
    for (const body of [null, [], [{}], "x", [op("Sleep", "s", { name: "some day" })]]) {
      const response = { status: 206, noRetry: false, retryAfter: null, body };
      expect(applyResponse(run, job, response, settings)).toMatchObject({ retry: { attempt: 1 }, end: null });
    }
  });
});

describe("an answer that asks to be called again", () => {
  const again = (id: string) => op("DiscoveryRequest", id);

  it("is called once, however often it asks", () => {
    expect(applyResponse(run, job, ops(again("a"), again("b")), settings).jobs).toEqual([plain]);
  });

  it("is called when the last open step has ended, not before", () => {
    const open = { ...run, forcePlan: true, pending: ["a"] };
    expect(applyResponse(open, job, ops(again("b")), settings).jobs).toEqual([]);
  });
});

describe("the end of a sleep", () => {
  it("continues the run, unless other steps are open", () => {
    const open = { ...run, forcePlan: true, pending: ["nap", "a"] };
    expect(applyTimer(open, "nap", nowMs)).toMatchObject({
      steps: [{ stepId: "nap", value: null }],
      jobs: [],
      forcePlan: true,
    });
    expect(applyTimer({ ...run, pending: ["nap"] }, "nap", nowMs)).toMatchObject({ jobs: [plain], forcePlan: false });
  });
});

describe("no run", () => {
  const anyOp = fc.record({
    op: fc.constantFrom(
      "StepRun",
      "StepFailed",
      "StepError",
      "StepPlanned",
      "Sleep",
      "RunComplete",
      "DiscoveryRequest",
    ),
    id: fc.constantFrom("a", "b", "c"),
    name: fc.constantFrom("1s", "2h"),
  });
  const anyResponse = fc.record({
    status: fc.constantFrom(200, 206, 206, 206, 400, 500),
    noRetry: fc.boolean(),
    retryAfter: fc.constantFrom(null, "1"),
    body: fc.array(anyOp, { maxLength: 4 }),
  });

  it("is stranded by any answer: it ends, is repeated, or has a job or an open step left", () => {
    fc.assert(
      fc.property(
        anyResponse,
        fc.uniqueArray(fc.constantFrom("a", "b", "c")),
        fc.constantFrom(null, "a"),
        fc.integer({ min: 0, max: 2 }),
        (response, pending, stepId, attempt) => {
          const view = { ...run, pending, forcePlan: pending.length > 1 };
          const transition = applyResponse(view, { ...job, stepId, attempt }, response, settings);
          if (transition.end !== null || transition.retry !== null) return;
          const open = new Set<string>([...pending, ...transition.addPending]);
          for (const id of transition.removePending) open.delete(id);
          const others = pending.filter((id) => open.has(id) && id !== stepId);
          expect(transition.jobs.length + others.length).toBeGreaterThan(0);
          const calls = transition.jobs.filter((next) => next.stepId === null && open.size === 0);
          expect(calls.length).toBe(open.size === 0 ? 1 : 0);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
