import { isAbsolute, resolve } from "node:path";
import { getKnown } from "../domain/known.ts";
import type { Acceptance, Plan, PlanTask } from "../domain/plan/plan.ts";
import type { PlanFiles } from "./checks/check-paths.ts";
import { parseDuration } from "./durations.ts";
import type { PlanFile, TaskOfFile } from "./plan-file-schema.ts";

export const defaultTaskTimeoutMs = 20 * 60_000;
export const defaultGateTimeoutMs = 10 * 60_000;

/**
 * Fills in every default and inserts the text of every file. The plan must have passed all checks.
 */
export function normalisePlan(file: PlanFile, files: PlanFiles, baseDir: string | null): Plan {
  return {
    name: file.name,
    description: file.description ?? null,
    limits: normaliseLimits(file.limits),
    isolation: file.isolation ?? "worktree",
    onTaskFailure: file.onTaskFailure ?? "stop",
    approval: file.approval ?? "none",
    agents: mapValues(file.agents ?? {}, (agent) => ({
      runtime: agent.runtime,
      command: agent.command ?? null,
      model: agent.model ?? null,
      prompt: typeof agent.prompt === "object" ? getKnown(files, agent.prompt.file) : (agent.prompt ?? null),
      effort: agent.effort ?? null,
      mcp: Object.entries(agent.mcp ?? {}).map(([name, { command }]) => ({ name, command })),
      skills: agent.skills ?? [],
    })),
    context: (file.context ?? []).map((entry, index) =>
      "file" in entry
        ? { label: entry.file, text: getKnown(files, entry.file) }
        : { label: `note ${index + 1}`, text: entry.text },
    ),
    env: mapValues(file.env ?? {}, String),
    secrets: [...new Set(file.secrets)],
    services: mapValues(file.services ?? {}, ({ command, ready }) => ({ command, ready: ready ?? null })),
    setup: file.setup === undefined ? null : { run: file.setup.run, cache: file.setup.cache ?? [] },
    generated: file.generated ?? [],
    source: normaliseSource(file.source, baseDir),
    tasks: file.tasks.map((task, position) => normaliseTask(task, position, files)),
    gates: normaliseGates(file.gates ?? {}),
    preview:
      file.preview === undefined ? null : { command: file.preview.command, healthPath: file.preview.healthPath ?? "/" },
    network: file.network ?? "allowlist",
    networkAsked: file.network !== undefined,
    ...(file.modelTools === undefined ? {} : { modelTools: [...new Set(file.modelTools)] }),
    deliver: {
      forge: file.deliver?.forge ?? "local",
      repo: file.deliver?.repo ?? null,
      base: file.deliver?.base ?? null,
      ...(file.deliver?.pullRequests === undefined ? {} : { pullRequests: file.deliver.pullRequests }),
      ...(file.deliver?.merge === undefined ? {} : { merge: file.deliver.merge }),
      ...(file.deliver?.create === undefined ? {} : { create: file.deliver.create }),
      ...(file.deliver?.issue === undefined ? {} : { issue: file.deliver.issue }),
      ...(file.deliver?.request === undefined ? {} : { request: file.deliver.request }),
    },
    notify: file.notify ?? [],
  };
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}

const toMs = (duration: string | undefined): number | null => (duration === undefined ? null : parseDuration(duration));

function normaliseLimits(limits: PlanFile["limits"]): Plan["limits"] {
  return {
    tasksPerAgentPerWave: limits?.tasksPerAgentPerWave ?? 3,
    maxParallelTasks: limits?.maxParallelTasks ?? null,
    budget: {
      usd: limits?.budget?.usd ?? null,
      tokens: limits?.budget?.tokens ?? null,
      wallClockMs: toMs(limits?.budget?.wallClock),
    },
  };
}

function normaliseSource(source: PlanFile["source"], baseDir: string | null): Plan["source"] {
  if (source === undefined || source === "empty") return { kind: "empty" };
  if ("path" in source) return { kind: "path", path: resolve(baseDir ?? "/", source.path) };
  const local = isAbsolute(source.git) || source.git.startsWith(".");
  const url = local && baseDir !== null ? resolve(baseDir, source.git) : source.git;
  return { kind: "git", url, ref: source.ref ?? null };
}

function normaliseTask(task: TaskOfFile, position: number, files: PlanFiles): PlanTask {
  return {
    key: task.id,
    position,
    title: task.title ?? task.id,
    agent: task.agent ?? "default",
    dependsOn: [...new Set(task.dependsOn)],
    ...normaliseInstructions(task.instructions, files),
    run: task.run ?? null,
    writes: task.writes ?? null,
    acceptance: (task.acceptance ?? []).map(normaliseAcceptance),
    changes: task.changes ?? (task.run === undefined ? "required" : "optional"),
    mayChangeTests: task.mayChangeTests ?? false,
    model: task.model ?? null,
    env: mapValues(task.env ?? {}, String),
    timeoutMs: toMs(task.timeout) ?? defaultTaskTimeoutMs,
    retries: task.retries ?? 1,
  };
}

function normaliseInstructions(
  instructions: TaskOfFile["instructions"],
  files: PlanFiles,
): Pick<PlanTask, "instructions" | "images"> {
  if (typeof instructions !== "object") return { instructions: instructions ?? null };
  const text = "file" in instructions ? getKnown(files, instructions.file) : instructions.text;
  return { instructions: text, ...(instructions.images === undefined ? {} : { images: instructions.images }) };
}

function normaliseAcceptance(entry: NonNullable<TaskOfFile["acceptance"]>[number]): Acceptance {
  return { text: entry.text ?? entry.check ?? "", check: entry.check ?? null };
}

function normaliseGates(gates: NonNullable<PlanFile["gates"]>): Plan["gates"] {
  const { testing, critic, integration } = gates;
  return {
    testing:
      testing === false
        ? false
        : {
            ...commandGate(testing),
            minTests: testing === undefined ? null : (testing.minTests ?? 1),
            ...(testing?.report === undefined ? {} : { report: testing.report }),
          },
    critic: critic === false ? false : { block: critic?.block ?? "high" },
    integration: integration === false ? false : commandGate(integration),
    maxFixRounds: gates.maxFixRounds ?? 2,
  };
}

type CommandGate = Exclude<NonNullable<PlanFile["gates"]>["integration"], false | undefined>;

function commandGate(gate: CommandGate | undefined): Exclude<Plan["gates"]["integration"], false> {
  return {
    command: gate?.command ?? null,
    timeoutMs: toMs(gate?.timeout) ?? defaultGateTimeoutMs,
    from: gate?.from ?? null,
    when: gate?.when ?? "each",
    ...(gate?.agent === undefined ? {} : { agent: gate.agent }),
  };
}
