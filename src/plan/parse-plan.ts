import type { Plan, PlanFault } from "../domain/plan/plan.ts";
import type { TaskGraph } from "../domain/plan/task-graph.ts";
import { checkEnvironment, type Environment } from "./checks/check-environment.ts";
import { checkPaths } from "./checks/check-paths.ts";
import { checkPrompts } from "./checks/check-prompts.ts";
import { checkReferences } from "./checks/check-references.ts";
import { checkWork, uncheckedAcceptance } from "./checks/check-work.ts";
import { cleanValue } from "./clean-value.ts";
import { createFaultSink, type FaultSink } from "./faults/fault-sink.ts";
import { looseTasks } from "./faults/loose.ts";
import { reportSchemaIssues } from "./faults/schema-faults.ts";
import { normalisePlan } from "./normalise-plan.ts";
import { planFileSchema } from "./plan-file-schema.ts";
import { type ReadText, readPlanText } from "./plan-text.ts";

export interface ParseOptions {
  /**
   * The plan's folder, to which `file:` and `source.path` are relative. Null: the plan has no
   * folder and cannot refer to files beside it.
   */
  readonly baseDir: string | null;
  /** Where to look for the values of secrets. */
  readonly env: Environment;
}

export interface ParsedPlan {
  /** Null when there are faults. */
  readonly plan: Plan | null;
  /** The plan to show; also set when only values of secrets are missing. */
  readonly outline: Plan | null;
  /** The plan's graph; null when there are faults. */
  readonly graph: TaskGraph | null;
  /** All faults, in the order of lines. */
  readonly faults: PlanFault[];
  readonly warnings: string[];
}

/**
 * Checks and normalises the text of a plan, and reads the files it names. Faults are data: it never
 * throws for them.
 */
export const parsePlan = (text: string, options: ParseOptions & { readonly format?: "yaml" | "json" }): ParsedPlan =>
  parseReadPlan(readPlanText(text, options.format ?? "yaml"), options);

/** `parsePlan` for a text that has been read. */
export const parseReadPlan = (read: ReadText, options: ParseOptions): ParsedPlan =>
  parseRead(read, createFaultSink(read.locate), options);

/**
 * `parsePlan` for a plan that arrived as a value, in an event or a request: its faults have no
 * lines.
 */
export function parsePlanValue(value: unknown, options: ParseOptions): ParsedPlan {
  return parsePlanPart(
    value,
    createFaultSink(() => null),
    options,
  );
}

/** `parsePlan` for a plan inside another file; the sink knows the lines of its values. */
export const parsePlanPart = (value: unknown, sink: FaultSink, options: ParseOptions): ParsedPlan =>
  parseRead({ value, faults: [], warnings: [], sourceAt: () => null }, sink, options);

const nothing = { plan: null, outline: null, graph: null } as const;

function parseRead(read: Omit<ReadText, "locate">, sink: FaultSink, options: ParseOptions): ParsedPlan {
  const warnings = [...read.warnings];
  for (const fault of read.faults) sink.report(fault);
  if (read.value === undefined) return { ...nothing, faults: sink.list(), warnings };
  const value = cleanValue(read.value, sink);
  const parsed = planFileSchema.safeParse(value);
  if (!parsed.success) reportSchemaIssues(parsed.error.issues, value, sink);
  const tasks = looseTasks(value);
  const graph = checkReferences(value, tasks, sink, warnings);
  checkWork(value, tasks, sink);
  const files = checkPaths(value, tasks, options.baseDir, sink);
  checkPrompts(value, files, sink);
  checkEnvironment(value, tasks, options.env, read.sourceAt, sink);
  const faults = sink.list();
  if (!parsed.success || faults.some((fault) => fault.code !== "missing-secret")) {
    return { ...nothing, faults, warnings };
  }
  const outline = normalisePlan(parsed.data, files, options.baseDir);
  warnings.push(...uncheckedAcceptance(outline));
  if (faults.length > 0) return { ...nothing, outline, faults, warnings };
  return { plan: outline, outline, graph, faults, warnings };
}
