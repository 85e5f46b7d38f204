import type { z } from "zod";
import { itemAt } from "../../domain/known.ts";
import { type FaultCode, type FaultSink, formatPath, type PlanPath } from "./fault-sink.ts";
import { didYouMean } from "./suggest.ts";

type Issue = z.core.$ZodIssue;

/** Turns zod's issues into faults that a person can act on. */
export function reportSchemaIssues(issues: readonly Issue[], value: unknown, sink: FaultSink): void {
  for (const issue of issues) reportIssue(issue, issue.path.map(toStep), value, sink);
}

const toStep = (step: PropertyKey): string | number => (typeof step === "number" ? step : String(step));

function reportIssue(issue: Issue, path: PlanPath, plan: unknown, sink: FaultSink): void {
  const value = valueAt(plan, path);
  const noTasks = path.length === 1 && path[0] === "tasks" && (value ?? null) === null;
  if (noTasks) sink.add("no-tasks", path, "The plan has no tasks: add at least one under `tasks`.");
  else if (issue.code === "unrecognized_keys") {
    for (const key of issue.keys) reportUnknownKey(key, path, issue.message.split(" "), sink);
  } else if (issue.code === "invalid_key") {
    for (const inner of issue.issues) reportOwnMessage(inner, path, sink, "key");
  } else if (value === undefined && path.length > 0) reportMissing(path, sink);
  else if (issue.code === "invalid_union") reportUnion(issue.errors, path, plan, sink);
  else if (splitMessage(issue.message) !== null) reportOwnMessage(issue, path, sink, "value");
  else
    sink.add(
      codeOf(issue),
      path,
      `${nameOf(path)} must be ${expectation(issue)}, not ${describe(value)}${hint(issue, value)}`,
    );
}

function reportUnknownKey(key: string, path: PlanPath, known: readonly string[], sink: FaultSink): void {
  const hint = didYouMean(key, known);
  const rest = hint === "" ? ` The keys here are ${known.join(", ")}; keys that begin with x- are ignored.` : "";
  sink.add("unknown-key", [...path, key], `Unknown key ${key}${hint === "" ? "." : hint}${rest}`, "key");
}

function reportMissing(path: PlanPath, sink: FaultSink): void {
  const holder = formatPath(path.slice(0, -1));
  const key = `\`${String(path.at(-1))}\``;
  sink.add("missing", path, holder === "" ? `${key} is missing: add it.` : `${holder} has no ${key}: add it.`);
}

/** Splits a schema message such as `bad-duration: write …`. */
function splitMessage(message: string): { code: FaultCode; message: string } | null {
  const parts = /^([a-z-]+): (.+)$/s.exec(message);
  return parts === null ? null : { code: parts[1] as FaultCode, message: itemAt(parts, 2) };
}

function reportOwnMessage(issue: { message: string }, path: PlanPath, sink: FaultSink, what: "key" | "value"): void {
  const { code, message } = splitMessage(issue.message) ?? { code: "invalid" as const, message: issue.message };
  sink.add(code, path, `${nameOf(path)}: ${message}.`, what);
}

/** Reports the faults of the shape that the value most likely has; otherwise lists all shapes. */
function reportUnion(errors: readonly (readonly Issue[])[], path: PlanPath, plan: unknown, sink: FaultSink): void {
  const value = valueAt(plan, path);
  const meant = errors.filter((issues) => !issues.some(isOfAnotherType));
  const nearest = meant.sort((left, right) => left.length - right.length)[0];
  if (nearest !== undefined) {
    for (const issue of nearest) reportIssue(issue, [...path, ...issue.path.map(toStep)], plan, sink);
    return;
  }
  const expectations = errors.flatMap((issues) => issues.find(isOfAnotherType) ?? []).map(expectation);
  sink.add(
    "wrong-type",
    path,
    `${nameOf(path)} must be ${[...new Set(expectations)].join(" or ")}, not ${describe(value)}${sourceHint(path, value)}`,
  );
}

/** Shows how to write a source that was given as a bare string. */
function sourceHint(path: PlanPath, value: unknown): string {
  if (path.join() !== "source" || typeof value !== "string") return ".";
  const key = /^[a-z+]+:\/\/|^git@/.test(value) ? "git" : "path";
  return `: write source: { ${key}: ${value} }.`;
}

const isOfAnotherType = (issue: Issue): boolean =>
  issue.path.length === 0 && (issue.code === "invalid_type" || issue.code === "invalid_value");

function codeOf(issue: Issue): FaultCode {
  return issue.code === "invalid_type" ? "wrong-type" : "invalid";
}

const typeNames: Readonly<Record<string, string>> = {
  string: "text",
  object: "a mapping",
  record: "a mapping",
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
};

/** Describes what a value must be; follows "must be" in the message. */
function expectation(issue: Issue): string {
  if (issue.code === "invalid_type") return typeNames[issue.expected] ?? issue.expected;
  if (issue.code === "invalid_value") return issue.values.map(String).join(" or ");
  if (issue.code === "too_small") return `${issue.inclusive === false ? "more than" : "at least"} ${issue.minimum}`;
  if (issue.code === "too_big") return `at most ${issue.maximum}`;
  return `right (${issue.message})`;
}

function hint(issue: Issue, value: unknown): string {
  if (issue.code === "invalid_value" && typeof value === "string") {
    return didYouMean(value, issue.values.map(String)) || ".";
  }
  const quotable = typeof value === "number" || typeof value === "boolean";
  return issue.code === "invalid_type" && issue.expected === "string" && quotable
    ? `: put it in quotes, "${value}".`
    : ".";
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** Returns the last key of a path, with its index for an item of a list. */
function nameOf(path: PlanPath): string {
  const last = path.at(-1);
  if (last === undefined) return "The plan";
  return typeof last === "number" ? `${String(path.at(-2) ?? "")}[${last}]` : last;
}

function valueAt(plan: unknown, path: PlanPath): unknown {
  let value = plan;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}
