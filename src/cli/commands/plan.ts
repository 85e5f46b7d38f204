import type { Plan, PlanFault } from "../../domain/plan.ts";
import { createTaskGraph } from "../../domain/task-graph.ts";
import { type PlannedWave, planWaves } from "../../domain/wave-planner.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { count, table } from "../format.ts";
import { readPlan } from "../parts.ts";
import { faultLine } from "../plan-faults.ts";

/** `plan PLAN`: shows the waves it would run, the critical path and the faults; runs nothing. A plan that only lacks values of secrets is shown, too. */
export async function plan(context: Context, file: string): Promise<number> {
  const { outline: read, graph, faults, refused, warnings } = await readPlan(file, context.environment);
  for (const warning of warnings) context.warn(warning);
  if (read === null) {
    tellFaults(context, file, faults);
    return exit.usage;
  }
  const code = faults.length > 0 ? exit.usage : exit.ok;
  const known = graph ?? createTaskGraph(read.tasks);
  const waves = planWaves(read, known);
  const criticalPath = known.criticalPath();
  if (context.json) {
    context.out.json({ waves: waves.map(({ number, tasks }) => ({ number, tasks })), criticalPath, faults });
    return code;
  }
  for (const line of describe(read, waves, criticalPath)) context.out.line(line);
  for (const line of refusals(file, refused)) context.out.line(context.out.paint("warn", line));
  if (faults.length > 0) tellFaults(context, file, faults);
  return code;
}

function tellFaults({ out, json }: Context, file: string, faults: readonly PlanFault[]): void {
  if (json) {
    out.json({ waves: [], criticalPath: [], faults });
    return;
  }
  for (const fault of faults) out.line(faultLine(file, fault));
  out.note(out.paintError("bad", `${count(faults.length, "fault")} in ${file}`));
}

function describe(plan: Plan, waves: readonly PlannedWave[], criticalPath: readonly string[]): string[] {
  const tasks = new Map(plan.tasks.map((task) => [task.key, task]));
  const roles = new Set(plan.tasks.map((task) => task.agent));
  const rows = waves.flatMap((wave) =>
    wave.tasks.map((key, index) => {
      const task = tasks.get(key)!;
      const needs = task.dependsOn.length === 0 ? "" : `needs ${task.dependsOn.join(", ")}`;
      const title = task.title === key ? "" : task.title;
      return [index === 0 ? `wave ${wave.number}` : "", key, task.agent, title, needs];
    }),
  );
  return [
    `${plan.name}: ${count(plan.tasks.length, "task")} of ${count(roles.size, "role")} in ${count(waves.length, "wave")}`,
    "",
    ...table(rows),
    "",
    `critical path (${count(criticalPath.length, "task")}): ${criticalPath.join(" → ")}`,
    `gates after each wave: ${gates(plan)}`,
    ...(plan.preview === null ? [] : [`preview: ${firstLine(plan.preview.command)}`]),
  ];
}

function gates(plan: Plan): string {
  const { testing, critic, integration, maxFixRounds } = plan.gates;
  const command = (gate: { command: string | null; from: string | null; when: string }, absent: string): string =>
    [
      gate.command === null ? absent : firstLine(gate.command),
      ...(gate.from === null ? [] : [`from ${gate.from} on`]),
      ...(gate.when === "final" ? ["in the last wave"] : []),
    ].join(", ");
  return [
    `testing (${testing === false ? "off" : command(testing, "detected")})`,
    `critic (${critic === false ? "off" : `blocks at ${critic.block}`})`,
    `integration (${integration === false ? "off" : command(integration, "preview and acceptance checks")})`,
    `at most ${count(maxFixRounds, "fix round")}`,
  ].join(", ");
}

const firstLine = (command: string): string => {
  const [first = "", ...rest] = command.trim().split("\n");
  return rest.length === 0 ? first : `${first} …`;
};

function refusals(file: string, refused: readonly PlanFault[]): string[] {
  if (refused.length === 0) return [];
  return ["", "build would refuse it:", ...refused.map((fault) => `  ${faultLine(file, fault)}`)];
}
