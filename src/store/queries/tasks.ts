import type { Tables, TaskRow } from "../port.ts";

/** Lists the tasks of a build in the plan's order. */
export const tasksOfBuild = ({ tasks }: Pick<Tables, "tasks">, buildId: string): Promise<TaskRow[]> =>
  tasks.list({ buildId }, { by: "position" });
