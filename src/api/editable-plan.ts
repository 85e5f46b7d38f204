import { withoutPlanTask } from "../domain/plan/brief.ts";
import { isMergeTask } from "../domain/plan/merge-task.ts";
import type { Plan } from "../domain/plan/plan.ts";
import { planText } from "../plan/write-plan.ts";

/** Writes a build's plan as a file for a person to edit, without the tasks that we added. */
export function editablePlanText(plan: Plan): string {
  const tasks = plan.tasks.filter((task) => !isMergeTask(task));
  return planText(withoutPlanTask({ ...plan, tasks }));
}
