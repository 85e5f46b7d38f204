import type { Plan } from "./plan.ts";

// A build from a brief: its first plan is one task, in which a planner makes the plan that the
// build goes on with. That task stays in the plan, before all others, so that the plan can be made
// anew as long as nothing was built by it.

/** What was asked for in words. */
export interface Brief {
  readonly text: string;
  /** The plan that is made waits for a person. */
  readonly asks: boolean;
}

/** The key of the task that makes the plan; no other task of such a build may have it. */
export const planTaskKey = "plan";

interface OfBrief {
  readonly brief: Brief | null;
}

/** Whether this task of a build makes its plan. */
export const makesPlan = ({ brief }: OfBrief, taskKey: string | null | undefined): boolean =>
  brief !== null && taskKey === planTaskKey;

/**
 * The made plan behind the task that makes it: every task that waits for no other waits for that
 * one.
 */
export function withPlanTask(plan: Plan, planTask: Plan["tasks"][number]): Plan {
  const tasks = plan.tasks.map((task) => ({
    ...task,
    position: task.position + 1,
    dependsOn: task.dependsOn.length === 0 ? [planTaskKey] : task.dependsOn,
  }));
  return { ...plan, tasks: [{ ...planTask, position: 0 }, ...tasks] };
}

/** The made plan as the planner handed it in, without the task that made it. */
export function withoutPlanTask(plan: Plan): Plan {
  const tasks = plan.tasks
    .filter((task) => task.key !== planTaskKey)
    .map((task, position) => ({ ...task, position, dependsOn: task.dependsOn.filter((key) => key !== planTaskKey) }));
  return { ...plan, tasks };
}

const openings = new Set(
  "a an the my please build make create write develop implement me us i we want need".split(" "),
);

/** A project's name from the first words of a brief, where nobody gave it one. */
export function nameFromBrief(text: string): string {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const first = words.findIndex((word) => !openings.has(word));
  const name = words.slice(Math.max(0, first), Math.max(0, first) + 3).join("-");
  return name === "" ? "brief" : [...name].slice(0, 40).join("").replace(/-$/, "");
}
