import type { BuildView, WaveView } from "../../coordinator/build/build-view.ts";
import { getKnown, itemAt } from "../../domain/known.ts";
import { withoutPlanTask } from "../../domain/plan/brief.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { createTaskGraph } from "../../domain/plan/task-graph.ts";
import { isAlone, type PlannedWave, planWaves } from "../../domain/plan/wave-planner.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { count, harmless, oneLine, table } from "../output/format.ts";
import type { Hints } from "../output/hints.ts";
import type { Line } from "./line.ts";

/** A plan and how it would run. */
export interface Outlook {
  readonly waves: readonly PlannedWave[];
  readonly criticalPath: readonly string[];
}

/** Lines for a plan's waves, tasks, agents, critical path and gates. */
export function planLines(plan: Plan, { waves, criticalPath }: Outlook): string[] {
  const tasks = new Map(plan.tasks.map((task) => [task.key, task]));
  const roles = new Set(plan.tasks.map((task) => task.agent));
  const delays = delaysIn(plan, waves);
  const rows = waves.flatMap((wave) =>
    wave.tasks.map((key, index) => {
      const task = getKnown(tasks, key);
      const needs = task.dependsOn.length === 0 ? [] : [`needs ${task.dependsOn.join(", ")}`];
      const title = task.title === key ? "" : task.title;
      const why = [...needs, ...(delays.get(key) ?? [])].join("; ");
      return [index === 0 ? `wave ${wave.number}` : "", key, task.agent, title, why];
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

/** Why tasks are not in an earlier wave although all that they need is there before, by key. */
function delaysIn(plan: Plan, waves: readonly PlannedWave[]): ReadonlyMap<string, string[]> {
  const tasks = new Map(plan.tasks.map((task) => [task.key, task]));
  const waveOf = new Map(waves.flatMap(({ number, tasks: keys }) => keys.map((key) => [key, number] as const)));
  const most = plan.limits.tasksPerAgentPerWave;
  const delays = new Map<string, string[]>();
  waves.slice(1).forEach(({ tasks: keys }, index) => {
    const before = itemAt(waves, index);
    for (const key of keys) {
      const { agent, dependsOn } = getKnown(tasks, key);
      if (dependsOn.some((needed) => waveOf.get(needed) === before.number)) continue;
      const ofRole = before.tasks.filter((other) => tasks.get(other)?.agent === agent).length;
      const isLone = [key, ...before.tasks].some((other) => isAlone(plan.isolation, tasks.get(other)?.writes ?? null));
      const other = isLone
        ? "a task without `writes` is alone in its wave"
        : `writes overlap with wave ${before.number}`;
      delays.set(key, [ofRole >= most ? `role ${agent} is full (${most} per wave)` : other]);
    }
  });
  return delays;
}

function gates(plan: Plan): string {
  const { testing, critic, integration, maxFixRounds } = plan.gates;
  const command = (
    gate: { command: string | null; from: string | null; when: string; agent?: string | undefined },
    absent: string,
  ): string =>
    [
      gate.command === null ? absent : firstLine(gate.command),
      ...(gate.agent === undefined ? [] : [`checks by ${gate.agent}`]),
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

/** Lines for a drafted plan that waits for approval; an agent wrote its text. */
export function madePlanLines({ build }: BuildView, wave: WaveView, planFile: string): Line[] {
  const plan = withoutPlanTask(build.plan);
  const graph = createTaskGraph(plan.tasks);
  const waves = planWaves(plan, graph).map(({ number, ...rest }) => ({ ...rest, number: number + wave.number }));
  const described = plan.description === null ? [] : [oneLine(plan.description), ""];
  const text = [...described, ...planLines(plan, { waves, criticalPath: graph.criticalPath() })];
  return [
    ...text.map((line): Line => ({ tone: "plain", text: harmless(line) })),
    { tone: "strong", text: `the whole plan, to read and edit: ${planFile}` },
  ];
}

/** The commands that approve, reject or edit the plan. */
export function planChoices({ build }: BuildView, planFile: string, hints: Hints): Line[] {
  const { id } = build;
  const choice = (what: string, ...words: string[]): Line => ({
    tone: "strong",
    text: `  ${what} ${words.map((each) => hints.command(each)).join(", then ")}`,
  });
  return [
    { tone: "strong", text: "next:" },
    choice("as it is:   ", `approve ${id}`, `resume ${id}`),
    choice("edited:     ", `resume ${id} --plan ${shellWord(planFile)}`),
    choice("another one:", `reject ${id} --reason "…"`, `retry ${id}`),
  ];
}

/** The brief on one line. */
export const briefText = (text: string): string => {
  const line = oneLine(harmless(text)).replace(/\s+/g, " ").trim();
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
};
