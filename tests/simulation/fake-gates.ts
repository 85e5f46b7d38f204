import type { Gates } from "../../src/gates/port.ts";

const foundIn = (file: string) => ({
  rule: "bug",
  severity: "high" as const,
  message: `a bug in ${file}`,
  file,
  line: null,
  confidence: null,
});

/** Judges by how a stage ended, and finds nothing itself. */
export const fakeGates: Gates = {
  detectTests: async () => null,
  staticChecks: async () => [],
  gateFiles: async () => [],
  syntaxChecks: () => [],
  syntaxFindings: () => [],
  judgeCommand: ({ sha, command, stage }) => {
    const passed = stage.status === "passed";
    const evidence = {
      sha,
      command,
      exitCode: stage.exitCode,
      signal: null,
      timedOut: false,
      durationMs: 1,
      outputTail: "",
      tests: null,
      notes: [],
    };
    const finding = {
      rule: "test-failure",
      severity: "high" as const,
      message: `it fails on ${sha}`,
      file: null,
      line: null,
      confidence: null,
    };
    return { verdict: passed ? "passed" : "failed", evidence, findings: passed ? [] : [finding], reason: null };
  },
  reviewSchema: {},
  parseReview: (file) => (JSON.parse(file) as string[]).map((path) => foundIn(path)),
  sortReview: async (findings) => ({ candidates: [...findings], aside: [] }),
  parseSecondLook: (file, asked) => {
    const { confirmed } = JSON.parse(file) as { confirmed: boolean };
    return asked.map(() => ({ confirmed, reason: null }));
  },
  secondLookSchema: {},
  setAside: (finding) => finding,
  parseChecks: (file) => (JSON.parse(file) as string[]).map((name) => ({ name, command: name, why: name })),
  checksSchema: {},
  pathsIn: () => [],
  judgeAddedCheck: ({ sha, check, stage }) => {
    const outcome = stage === null || stage.exitCode === null ? "not-run" : stage.exitCode === 0 ? "passed" : "failed";
    const result = { outcome, exitCode: stage?.exitCode ?? null, durationMs: 1, outputTail: "", note: null } as const;
    return {
      result,
      findings: outcome === "failed" ? [{ ...foundIn(check.name), file: null, line: null, message: sha }] : [],
    };
  },
  judgeFindings: (findings) => (findings.length > 0 ? "failed" : "passed"),
  fingerprint: (findings) => JSON.stringify(findings),
  isWeakenedTest: () => false,
};
