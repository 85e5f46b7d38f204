import type { PlanFault } from "../../domain/plan/plan.ts";
import { createTaskGraph } from "../../domain/plan/task-graph.ts";
import { planWaves } from "../../domain/plan/wave-planner.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { count } from "../output/format.ts";
import { checkPlanModels, readPlan } from "../parts.ts";
import { faultLine } from "../request/plan-faults.ts";
import { planLines } from "../view/plan-lines.ts";

/**
 * `plan PLAN`: shows waves, critical path and faults; runs nothing. Also shows a plan that only
 * lacks the values of secrets.
 */
export async function plan(context: Context, file: string): Promise<number> {
  const { plan: whole, outline: read, graph, refused, ...found } = await readPlan(file, context.environment);
  const models = whole === null ? { faults: [], warnings: [] } : await checkPlanModels(await context.config(), whole);
  for (const warning of [...found.warnings, ...models.warnings]) context.warn(warning);
  const faults = [...found.faults, ...models.faults];
  if (read === null) {
    printFaults(context, file, faults);
    return exit.usage;
  }
  const code = faults.length > 0 ? exit.usage : exit.ok;
  const known = graph ?? createTaskGraph(read.tasks);
  const waves = planWaves(read, known);
  const criticalPath = known.criticalPath();
  if (context.json) {
    const shown = waves.map(({ number, tasks }) => ({ number, tasks }));
    context.out.json({ waves: shown, criticalPath, faults, ...(refused.length === 0 ? {} : { refused }) });
    return code;
  }
  for (const line of planLines(read, { waves, criticalPath })) context.out.line(line);
  for (const line of refusals(file, refused)) context.out.line(context.out.paint("warn", line));
  if (faults.length > 0) printFaults(context, file, faults);
  return code;
}

function printFaults({ out, json }: Context, file: string, faults: readonly PlanFault[]): void {
  if (json) {
    out.json({ waves: [], criticalPath: [], faults });
    return;
  }
  for (const fault of faults) out.line(faultLine(file, fault));
  out.note(out.paintError("bad", `${count(faults.length, "fault")} in ${file}`));
}

function refusals(file: string, refused: readonly PlanFault[]): string[] {
  if (refused.length === 0) return [];
  return ["", "build would refuse it:", ...refused.map((fault) => `  ${faultLine(file, fault)}`)];
}
