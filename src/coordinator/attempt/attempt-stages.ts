import type { ContextPack } from "../../agents/port.ts";
import { present } from "../../domain/known.ts";
import { matchesAny } from "../../domain/paths/write-globs.ts";
import { agentSpecFor, type Plan } from "../../domain/plan/plan.ts";
import { providerToolsOf } from "../../domain/sandbox/network.ts";
import { answersPath, handoverPath } from "../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import { type JobSetting, prepareJob } from "../job/job-setting.ts";
import { shellArgv, stage } from "../job/job-stages.ts";
import { isPlanner, plannerSchema } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { sharesTree } from "../wave/shared-tree.ts";
import { homeOf, type LoadedAttempt } from "./attempt.ts";
import { packForAttempt } from "./attempt-context.ts";

export async function attemptStages(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
): Promise<{ stages: StageSpec[]; setting: JobSetting }> {
  const { attempt, build, task } = loaded;
  const { plan } = build;
  const framing = prepareJob({
    ports,
    endpoint,
    plan,
    projectId: build.projectId,
    sha: attempt.baseSha,
    treePath: attempt.treePath,
    shared: sharesTree(attempt),
    // Only a task's base is in main: fixes and generated files start on the wave's head, which no
    // gate has judged yet.
    ...(attempt.kind === "task" ? { mayFill: { build, waveId: attempt.waveId } } : {}),
    ...(task === null ? {} : { env: task.definition.env }),
    mentions: commandsOf(loaded),
  });
  const generates = attempt.kind === "generate";
  const [setting, pack] = await Promise.all([framing, generates ? null : handOver(ports, endpoint, loaded)]);
  const base = { env: setting.env, cwd: attempt.treePath };
  if (pack === null) {
    const regenerated = plan.generated.filter(({ path }) => attempt.paths.some((made) => matchesAny([path], made)));
    const stages = regenerated.map((entry) =>
      stage({ ...base, name: `generate ${entry.path}`, argv: shellArgv(entry.by), timeoutMs: 15 * 60_000 }),
    );
    return { stages, setting };
  }
  const agent = await agentStageOf(ports, endpoint, loaded, { setting, pack });
  const checks = (task?.definition.acceptance ?? []).flatMap((acceptance, index) =>
    acceptance.check === null
      ? []
      : [
          stage({
            ...base,
            name: `check ${index + 1}`,
            argv: shellArgv(acceptance.check),
            timeoutMs: Math.min(present(task, "its task").definition.timeoutMs, 10 * 60_000),
            continueOnFailure: true,
          }),
        ],
  );
  return { stages: [agent, ...checks], setting };
}

/** Returns an attempt's commands; null for an agent, because its needs are unknown. */
function commandsOf({ attempt, build, task }: LoadedAttempt): string[] | null {
  if (attempt.kind === "generate") return build.plan.generated.map((entry) => entry.by);
  if (task === null || task.definition.run === null) return null;
  return [task.definition.run, ...task.definition.acceptance.flatMap(({ check }) => check ?? [])];
}

/** Writes the agent's context into its hand-over folder. */
async function handOver(ports: Ports, { guest }: SandboxEndpoint, loaded: LoadedAttempt): Promise<ContextPack> {
  const pack = await packForAttempt(ports, loaded);
  await guest.writeFile(`${handoverPath(loaded.attempt.jobKey)}/task.json`, pack.taskFile);
  return pack;
}

async function agentStageOf(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
  { setting, pack }: { setting: JobSetting; pack: ContextPack },
): Promise<StageSpec> {
  const { attempt, build, task } = loaded;
  const folder = handoverPath(attempt.jobKey);
  const plans = isPlanner(loaded);
  const spec = agentSpecFor(build.plan, attempt.role);
  return ports.agents.agentStage({
    spec: spec === null || task?.definition.model == null ? spec : { ...spec, model: task.definition.model },
    run: task?.definition.run ?? null,
    images: task?.definition.images ?? [],
    role: attempt.role,
    pack,
    treePath: attempt.treePath,
    taskFilePath: `${folder}/task.json`,
    resultFilePath: `${folder}/result.json`,
    workspaceRoot: endpoint.workspaceRoot,
    env: setting.env,
    timeoutMs: task?.definition.timeoutMs ?? fixTimeoutMs(build.plan),
    homePath: homeOf(loaded),
    modelToken: await ports.models.tokenFor("attempt", attempt.id, attempt.fence),
    providerTools: providerToolsOf(build.network, build.plan),
    resultSchema: plans ? plannerSchema : null,
    readOnly: plans,
    answersPath: build.interactive ? answersPath(attempt.jobKey) : null,
  });
}

/** A fixer may take as long as the longest task of the plan. */
const fixTimeoutMs = (plan: Plan): number => Math.max(...plan.tasks.map((task) => task.timeoutMs));
