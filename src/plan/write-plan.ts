import { stringify } from "yaml";
import type { AgentSpec, Plan, PlanTask } from "../domain/plan/plan.ts";
import { formatDuration } from "./durations.ts";
import { defaultGateTimeoutMs, defaultTaskTimeoutMs } from "./normalise-plan.ts";

// Writes a plan as a person would, leaving out defaults. Reading it again gives the same plan.

type Fields = Record<string, unknown>;

/** Writes the text of a plan file; `heading` becomes comments at the top. */
export function planText(plan: Plan, heading: readonly string[] = []): string {
  const comments = heading.map((line) => `# ${line.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, " ")}\n`).join("");
  return `${comments}${stringify(planFile(plan), { lineWidth: 0, blockQuote: "literal" })}`;
}

/** Returns a role's settings as in a plan file. */
export const agentFile = ({ runtime, command, model, prompt, effort, mcp = [], skills = [] }: AgentSpec): Fields =>
  withValues({
    ...{ runtime, command, model, prompt, effort, skills: some(skills) },
    mcp: filled(Object.fromEntries(mcp.map(({ name, command: start }) => [name, { command: start }]))),
  });

/** Returns a plan as the value of a plan file. */
export function planFile(plan: Plan): Fields {
  const { name, description, source, preview, deliver } = plan;
  return withValues({
    name,
    description,
    limits: filled({
      tasksPerAgentPerWave: unless(plan.limits.tasksPerAgentPerWave, 3),
      maxParallelTasks: plan.limits.maxParallelTasks,
      budget: filled({
        usd: plan.limits.budget.usd,
        tokens: plan.limits.budget.tokens,
        wallClock: durationOf(plan.limits.budget.wallClockMs),
      }),
    }),
    isolation: unless(plan.isolation, "worktree"),
    onTaskFailure: unless(plan.onTaskFailure, "stop"),
    approval: unless(plan.approval, "none"),
    agents: filled(Object.fromEntries(Object.entries(plan.agents).map(([role, spec]) => [role, agentFile(spec)]))),
    context: some(plan.context.map(({ text }) => ({ text }))),
    env: filled(plan.env),
    secrets: some(plan.secrets),
    services: filled(
      Object.fromEntries(Object.entries(plan.services).map(([key, service]) => [key, withValues(service)])),
    ),
    setup: plan.setup === null ? null : withValues({ run: plan.setup.run, cache: some(plan.setup.cache) }),
    generated: some(plan.generated),
    source: sourceFile(source),
    tasks: plan.tasks.map(taskFile),
    gates: gatesFile(plan.gates),
    preview: preview === null ? null : withValues({ ...preview, healthPath: unless(preview.healthPath, "/") }),
    network: plan.networkAsked ? plan.network : null,
    modelTools: some(plan.modelTools ?? []),
    deliver: filled({
      forge: unless(deliver.forge, "local"),
      repo: deliver.repo,
      base: deliver.base,
      pullRequests: deliver.pullRequests ?? null,
      merge: deliver.merge ?? null,
      create: deliver.create ?? null,
      issue: deliver.issue ?? null,
      request: deliver.request ?? null,
    }),
    notify: some(plan.notify),
  });
}

/** A person's own repository is the default source, so it is not written. */
function sourceFile(source: Plan["source"]): Fields | null {
  if (source.kind === "git") return withValues({ git: source.url, ref: source.ref });
  return source.kind === "path" ? { path: source.path } : null;
}

function taskFile(task: PlanTask): Fields {
  return withValues({
    id: task.key,
    title: unless(task.title, task.key),
    agent: task.run !== null && task.agent === "default" ? null : task.agent,
    dependsOn: some(task.dependsOn),
    instructions: task.images === undefined ? task.instructions : { text: task.instructions, images: task.images },
    run: task.run,
    writes: task.writes,
    acceptance: some(
      task.acceptance.map(({ text, check }) =>
        withValues({ text: check === text || text === "" ? null : text, check }),
      ),
    ),
    changes: unless(task.changes, task.run === null ? "required" : "optional"),
    mayChangeTests: unless(task.mayChangeTests, false),
    model: task.model,
    env: filled(task.env),
    timeout: durationOf(unless(task.timeoutMs, defaultTaskTimeoutMs)),
    retries: unless(task.retries, 1),
  });
}

function gatesFile({ testing, critic, integration, maxFixRounds }: Plan["gates"]): Fields | null {
  return filled({
    testing: testing === false ? false : filled({ ...gateFile(testing), minTests: testing.minTests }),
    critic: critic === false ? false : filled({ block: unless(critic.block, "high") }),
    integration: integration === false ? false : filled(gateFile(integration)),
    maxFixRounds: unless(maxFixRounds, 2),
  });
}

const gateFile = (gate: Exclude<Plan["gates"]["integration"], false>): Fields => ({
  command: gate.command,
  timeout: durationOf(unless(gate.timeoutMs, defaultGateTimeoutMs)),
  from: gate.from,
  when: unless(gate.when, "each"),
  agent: gate.agent ?? null,
});

const durationOf = (ms: number | null): string | null => (ms === null ? null : formatDuration(ms));

/** Returns null for a default, which is left out. */
const unless = <Value>(value: Value, usual: Value): Value | null => (value === usual ? null : value);
const some = <Item>(list: readonly Item[]): readonly Item[] | null => (list.length === 0 ? null : list);

/** Drops keys without a value. */
const withValues = (fields: object): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));

const filled = (fields: object): Fields | null => {
  const kept = withValues(fields);
  return Object.keys(kept).length === 0 ? null : kept;
};
