import type { Plan, PlanFault } from "../../domain/plan/plan.ts";
import { createTaskGraph } from "../../domain/plan/task-graph.ts";
import { planWaves } from "../../domain/plan/wave-planner.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { count } from "../output/format.ts";
import { checkPlanModels, readPlan } from "../parts.ts";
import { faultLine } from "../request/plan-faults.ts";
import { readPlanForServer, sendablePlan } from "../server/sendable-plan.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";
import { planLines } from "../view/plan-lines.ts";

/**
 * `plan PLAN`: shows waves, critical path and faults; runs nothing. Also shows a plan that only
 * lacks the values of secrets.
 */
export async function plan(context: Context, file: string): Promise<number> {
  const server = await serverApi(context);
  const reading = server === null ? readPlan(file, context.environment) : readPlanForServer(file);
  const { plan: whole, outline: read, graph, refused, ...found } = await reading;
  const more =
    whole === null ? noFaults : await (server === null ? checkHere(context, whole) : checkThere(server, file));
  for (const warning of [...found.warnings, ...more.warnings]) context.warn(warning);
  const faults = [...found.faults, ...more.faults];
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

interface Checked {
  readonly faults: readonly PlanFault[];
  readonly warnings: readonly string[];
}

const noFaults: Checked = { faults: [], warnings: [] };

const checkHere = async (context: Context, plan: Plan): Promise<Checked> =>
  checkPlanModels(await context.config(), plan);

/**
 * Checks a plan on a server, which knows its secrets. The files it reads are sent with it, so lines
 * mean nothing.
 */
async function checkThere({ api, ask }: ServerApi, file: string): Promise<Checked> {
  const { faults, warnings } = await ask(api.POST("/api/v1/plans/check", { body: await sendablePlan(file) }));
  return { faults: faults.map((fault) => ({ ...fault, line: null })), warnings };
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
