import type { FaultSink, PlanPath } from "../faults/fault-sink.ts";
import { asList, asRecord, type LooseTask, own } from "../faults/loose.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Checks that secrets have values, that numbers in `env` keep their spelling, and that a GitHub
 * delivery names its repository.
 */
export function checkEnvironment(
  plan: unknown,
  tasks: readonly LooseTask[],
  env: Environment,
  sourceAt: (path: PlanPath) => string | null,
  sink: FaultSink,
): void {
  asList(asRecord(plan).secrets).forEach((name, index) => {
    if (typeof name !== "string" || own(env, name)) return;
    const message = `The secret ${name} has no value: set ${name} in the environment of this command.`;
    sink.add("missing-secret", ["secrets", index], message);
  });
  checkNumbers(asRecord(asRecord(plan).env), ["env"], sourceAt, sink);
  for (const task of tasks) checkNumbers(asRecord(task.fields.env), ["tasks", task.index, "env"], sourceAt, sink);
  const deliver = asRecord(asRecord(plan).deliver);
  if (deliver.forge === "github" && deliver.repo === undefined) {
    sink.add("missing", ["deliver", "repo"], "Delivery to GitHub needs a repository: add `repo: owner/name`.");
  }
}

/** YAML reads `1.10` as 1.1 and `0755` as 755, so the text would differ from what was written. */
function checkNumbers(
  env: Readonly<Record<string, unknown>>,
  path: PlanPath,
  sourceAt: (path: PlanPath) => string | null,
  sink: FaultSink,
): void {
  for (const [name, value] of Object.entries(env)) {
    if (typeof value !== "number") continue;
    const source = sourceAt([...path, name]);
    if (source === null || source === String(value)) continue;
    sink.add("invalid", [...path, name], `${name} is written ${source} but read as ${value}: put it in quotes.`);
  }
}
