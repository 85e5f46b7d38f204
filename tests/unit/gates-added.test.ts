import { describe, expect, it } from "vitest";
import { phaseOf } from "../../src/api/waiting.ts";
import { gateLines } from "../../src/cli/view/gate-lines.ts";
import { type AddedCheck, type AddedChecks, addedText } from "../../src/domain/gate/added-checks.ts";
import { createGates } from "../../src/gates/gates.ts";
import type { StageState } from "../../src/sandbox/port.ts";
import { gate, view, wave } from "./cli-views.ts";

const gates = createGates();
const proposed = { name: "holds", command: "test -e a", why: "asked for" };
const parse = (...checks: object[]) => gates.parseChecks(JSON.stringify({ checks }));

describe("the checks that a gate's agent reports", () => {
  it("are taken as they are, trimmed, with commands of several lines", () => {
    const command = "cat > x <<'E'\n\ttext\nE\ntest -e x";
    expect(parse({ ...proposed, name: " holds ", command })).toEqual([{ ...proposed, command }]);
    expect(parse()).toEqual([]);
  });

  it.each([
    ["more than ten", Array.from({ length: 11 }, () => proposed)],
    ["one without a command", [{ name: "a", why: "b" }]],
    ["an empty command", [{ ...proposed, command: "  " }]],
    ["a command that is too long", [{ ...proposed, command: "x".repeat(2_001) }]],
    ["a name that is too long", [{ ...proposed, name: "x".repeat(81) }]],
    ["a name of two lines", [{ ...proposed, name: "a\nb" }]],
    ["a reason with terminal sequences", [{ ...proposed, why: "\u001b[2J" }]],
    ["a command with a zero byte", [{ ...proposed, command: "a\u0000b" }]],
  ])("are refused when there is %s", (_, checks) => {
    expect(() => parse(...checks)).toThrowError(expect.objectContaining({ code: "usage" }));
  });

  it.each(["", "[]", "{}", '{"checks":{}}'])("are refused when they are no list: %s", (file) => {
    expect(() => gates.parseChecks(file)).toThrowError(expect.objectContaining({ code: "usage" }));
  });

  it("name paths that may be in the tree", () => {
    const command = `cd sub && node --test ./test/own.test.js "$X/y" -q > out.txt; A=b.sh sh /etc/x ../up 'a b' src/`;
    expect(gates.pathsIn(command)).toEqual([
      ...["cd", "sub", "node", "test/own.test.js", "out.txt", "A", "b.sh", "sh", "a", "b", "src"],
    ]);
  });
});

const check: AddedCheck = { ...proposed, needs: [], refused: null, result: null };
const stage = (fields: Partial<StageState>): StageState => ({
  name: "added check 1",
  status: "failed",
  exitCode: 1,
  signal: null,
  timedOut: false,
  outOfMemory: false,
  truncated: false,
  error: null,
  startedAt: null,
  endedAt: null,
  durationMs: 5,
  outputStart: 0,
  outputEnd: 0,
  ...fields,
});
const judge = (fields: Partial<StageState> | null, more: object = {}) =>
  gates.judgeAddedCheck({
    sha: "a".repeat(40),
    check,
    stage: fields === null ? null : stage(fields),
    output: "said\n",
    missing: [],
    jobEnd: null,
    ...more,
  });

describe("a check that we ran", () => {
  it("passed if it ended with 0", () => {
    expect(judge({ status: "passed", exitCode: 0 })).toMatchObject({
      result: { outcome: "passed", exitCode: 0, outputTail: "said", note: null },
      findings: [],
    });
  });

  it("failed if it ended with its own code, and the finding says so first", () => {
    const { result, findings } = judge({ exitCode: 3 });
    expect(result).toMatchObject({ outcome: "failed", exitCode: 3, outputTail: "said", note: null });
    expect(findings.map(({ rule, severity, message }) => `${rule} ${severity} ${message}`)).toEqual([
      "added-check high holds (asked for): exit 3 of test -e a",
      "command-failed high holds: said",
    ]);
    const twice = [judge({ exitCode: 3, durationMs: 9 }), judge({ exitCode: 3 })].map((one) =>
      gates.fingerprint(one.findings),
    );
    expect(twice[0], "the same findings are known again").toBe(twice[1]);
  });

  it.each<[string, Partial<StageState> | null, object, string | RegExp]>([
    ["it was not found", { exitCode: 127 }, {}, /^the shell found no such command$/],
    ["it may not be started", { exitCode: 126 }, {}, /^the shell found no such command$/],
    ["it ran out of time", { exitCode: null, timedOut: true }, {}, /^did not end within its time/],
    ["it was killed", { exitCode: null, signal: "SIGKILL" }, {}, "stopped early"],
    ["a shell reported that it was killed", { exitCode: 137 }, {}, "stopped early"],
    ["it had no memory", { exitCode: 1, outOfMemory: true }, {}, "it ran out of memory"],
    [
      "its tree lacks what its agent made",
      {},
      { missing: ["own.js"] },
      "it needs own.js, which only its agent's tree had",
    ],
    [
      "its job ended before the check ran",
      { status: "skipped", exitCode: null },
      { jobEnd: "setup exited with 1" },
      "setup exited",
    ],
    ["its job was lost", null, {}, "its job ended before the check ran"],
    ["it is not run at all", null, { check: { ...check, refused: "it holds a secret" } }, "it holds a secret"],
    [
      "it names a temporary file that is not there",
      {},
      { check: { ...check, command: "sh /tmp/x.sh" }, output: "sh: 0: cannot open /tmp/x.sh: No such file" },
      "it needs /tmp/x.sh, which is not in the commit",
    ],
  ])("was none when %s", (_, fields, more, note) => {
    const { result, findings } = judge(fields, more);
    expect(findings).toEqual([]);
    expect(result.outcome).toBe("not-run");
    expect(result.note).toMatch(note);
  });

  it("also failed if a page was not found", () => {
    const command = "curl -f localhost:$PORT/api/entries";
    expect(judge({ exitCode: 22 }, { check: { ...check, command }, output: "/api/entries not found" })).toMatchObject({
      result: { outcome: "failed" },
    });
  });
});

describe("the checks a gate's agent added", () => {
  const result = { exitCode: 0, durationMs: 1, outputTail: "", note: null };
  const added: AddedChecks = {
    role: "tester",
    phase: null,
    asked: true,
    own: { verdict: "passed", reason: null },
    lack: null,
    checks: [
      { ...check, result: { ...result, outcome: "passed" } },
      { ...check, name: "absent", result: { ...result, outcome: "not-run", note: "no such program" } },
    ],
  };
  const lines = (given: AddedChecks, verdict: "passed" | "absent" = "passed") => {
    const { evidence } = gate({});
    return gateLines(1, gate({ verdict, reason: "none", evidence: { ...evidence!, added: given } })).map(
      ({ text }) => text,
    );
  };

  it("are summed up in one line, with what could not run and why", () => {
    expect(lines(added)).toEqual([
      "  testing of wave 1: passed: npm test, exit 0, 12 tests, 3.2s",
      "    agent tester added 2 checks: 1 passed, 1 could not be run",
      "      absent: could not be run: no such program: test -e a",
    ]);
    expect(lines({ ...added, checks: [], lack: "it crashed" }, "absent")).toEqual([
      "  testing of wave 1: absent: none",
      "    agent tester added no checks: it crashed",
    ]);
    expect(addedText({ ...added, asked: false })).toBe(
      "2 checks that agent tester had added before: 1 passed, 1 could not be run",
    );
    expect(addedText({ ...added, checks: [check] })).toBe("agent tester added 1 check");
  });

  it("are reported while they run", () => {
    const { evidence } = gate({});
    const phase = (under: AddedChecks["phase"]) => {
      const running = gate({
        status: "running",
        verdict: null,
        evidence: { ...evidence!, added: { ...added, phase: under } },
      });
      return phaseOf(view({ waves: [wave({ status: "gating", gates: [running] })] }));
    };
    expect(phase("asking")).toBe("wave 1: testing gate, agent tester at work");
    expect(phase("running")).toBe("wave 1: testing gate, checks of its agent");
    expect(phase(null)).toBe("wave 1: testing gate");
  });
});
