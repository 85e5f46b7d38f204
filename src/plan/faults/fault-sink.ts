import type { PlanFault } from "../../domain/plan/plan.ts";

/** Every fault code of a plan. Tests and tools rely on these names. */
export type FaultCode =
  | "syntax"
  | "duplicate-key"
  | "too-large"
  | "unknown-key"
  | "missing"
  | "wrong-type"
  | "invalid"
  | "bad-duration"
  | "no-tasks"
  | "duplicate-id"
  | "dangling-dependency"
  | "self-dependency"
  | "cycle"
  | "undeclared-role"
  | "unknown-runtime"
  | "no-runtime"
  | "no-work"
  | "two-works"
  | "bad-glob"
  | "escaping-glob"
  | "missing-secret"
  | "missing-file"
  | "escaping-file"
  | "missing-source"
  | "unknown-task"
  | "bad-prompt"
  | "unsupported";

/** Keys and indexes from the root of the plan. */
export type PlanPath = readonly (string | number)[];

/** Returns the line of a value in the plan, or of its key. */
export type Locate = (path: PlanPath, what: "value" | "key") => number | null;

export interface FaultSink {
  add(code: FaultCode, path: PlanPath, message: string, what?: "value" | "key"): void;
  /** Adds a fault whose line is already known. */
  report(fault: { code: FaultCode; path: PlanPath; line: number | null; message: string }): void;
  /** Returns the faults in the order of their lines. */
  list(): PlanFault[];
}

export function createFaultSink(locate: Locate): FaultSink {
  const faults: PlanFault[] = [];
  return {
    add(code, path, message, what = "value") {
      faults.push({ code, path: formatPath(path), line: locate(path, what), message });
    },
    report: ({ code, path, line, message }) => {
      faults.push({ code, path: formatPath(path), line, message });
    },
    list: () => [...faults].sort((left, right) => (left.line ?? 0) - (right.line ?? 0)),
  };
}

/** Formats a path as `tasks[2].dependsOn[0]`. */
export function formatPath(path: PlanPath): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (/^[\w-]+$/.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}
