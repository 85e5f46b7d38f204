import { shellWord } from "../shell-word.ts";
import { hasFixer, type Plan, type PlanTask } from "./plan.ts";

// A source that conflicts with what the project built is merged with conflict markers, and the
// fixer's first task is to resolve them. Every other task comes after it.

/** The key of the task that resolves the conflicts; no other task of such a build may use it. */
export const mergeTaskKey = "merge-source";

interface Resolving {
  readonly plan: Pick<Plan, "agents" | "gates" | "tasks">;
  /** A planner's build gets its tasks later, from the planner. */
  readonly brief: unknown;
}

/** Whether a build can resolve conflicts with its source by itself. */
export const canResolve = ({ plan, brief }: Resolving): boolean =>
  brief === null && hasFixer(plan) && !plan.tasks.some(({ key }) => key === mergeTaskKey);

/** Puts a task first: every task without dependencies now depends on it. */
export function withFirstTask(plan: Plan, first: PlanTask): Plan {
  const tasks = plan.tasks.map((task) => ({
    ...task,
    position: task.position + 1,
    dependsOn: task.dependsOn.length === 0 ? [first.key] : task.dependsOn,
  }));
  return { ...plan, tasks: [{ ...first, position: 0 }, ...tasks] };
}

const timeoutMs = 30 * 60_000;
const opening = "The source of this project has changed since the project read it, and the project has changed too.";

/** Whether we put this task into the plan; a person's task may have the same key. */
export const isMergeTask = ({ key, instructions }: PlanTask): boolean =>
  key === mergeTaskKey && instructions?.startsWith(opening) === true;

/** The fixer's task to resolve the conflicts in these paths. */
export function mergeTask(paths: readonly string[]): PlanTask {
  const files = paths.map(shellWord).join(" ");
  const check = `for file in ${files}; do
  if [ -f "$file" ] && grep -nE '^(<{7}|>{7})( |$)' -- "$file"; then exit 1; fi
done`;
  return {
    key: mergeTaskKey,
    position: 0,
    title: "Merge the source",
    agent: "fixer",
    dependsOn: [],
    instructions: `${opening} The tree is the merge of both, which conflicts in these files:

${paths.map((path) => `- ${path}`).join("\n")}

Resolve every conflict there so that both sides keep what they mean: the part above ======= is what the project built, the part below it is what people changed in the source. Remove the conflict markers. A file without markers was deleted or is binary on one side: decide whether it stays. Change nothing else.`,
    run: null,
    writes: null,
    acceptance: [{ text: "no conflict marker is left", check }],
    changes: "required",
    mayChangeTests: true,
    model: null,
    env: {},
    timeoutMs,
    retries: 1,
  };
}
