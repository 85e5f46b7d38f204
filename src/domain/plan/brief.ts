import type { Plan } from "./plan.ts";

// A build from a brief starts with a plan of one task, in which a planner drafts the real plan.
// That task stays in the plan, ahead of all others, so that the planner can draft another plan
// until something has been built from it.

/** A person's request in words. */
export interface Brief {
  readonly text: string;
  /** Whether a person must approve the drafted plan. */
  readonly asks: boolean;
}

/** The key of the planner's task; no other task of the build may use it. */
export const planTaskKey = "plan";

interface OfBrief {
  readonly brief: Brief | null;
}

/** Whether this is the planner's task. */
export const makesPlan = ({ brief }: OfBrief, taskKey: string | null | undefined): boolean =>
  brief !== null && taskKey === planTaskKey;

/** Returns the plan as the planner submitted it, without the planner's own task. */
export function withoutPlanTask(plan: Plan): Plan {
  const tasks = plan.tasks
    .filter((task) => task.key !== planTaskKey)
    .map((task, position) => ({ ...task, position, dependsOn: task.dependsOn.filter((key) => key !== planTaskKey) }));
  return { ...plan, tasks };
}

const openings = new Set(
  "a an the my please build make create write develop implement me us i we want need".split(" "),
);

/** Derives a project name from the first words of a brief, for a project without a name. */
export function nameFromBrief(text: string): string {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const first = words.findIndex((word) => !openings.has(word));
  const name = words.slice(Math.max(0, first), Math.max(0, first) + 3).join("-");
  return name === "" ? "brief" : [...name].slice(0, 40).join("").replace(/-$/, "");
}

/** Returns the file name of a drafted plan; each new draft has another name. */
export const planFileName = (buildId: string, waveNumber: number): string =>
  waveNumber === 1 ? `${buildId}.yaml` : `${buildId}-${waveNumber}.yaml`;
