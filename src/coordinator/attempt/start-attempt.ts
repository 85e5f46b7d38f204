import type { ContextPack, FixContext, TaskContext } from "../../agents/port.ts";
import { failedOutput } from "../../domain/added-checks.ts";
import { makesPlan } from "../../domain/brief.ts";
import { providerToolsOf } from "../../domain/network.ts";
import { agentSpecFor, type Plan } from "../../domain/plan.ts";
import { matchesAny } from "../../domain/write-globs.ts";
import type { SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { AttemptInContext, AttemptRow, FindingRow, TaskRow } from "../../store/port.ts";
import { frameJob, type JobSetting } from "../job/frame-job.ts";
import { shell, stage, startJob } from "../job/job-stages.ts";
import { answersPath, handoverPath, homePath } from "../names.ts";
import { earlierPlan, isPlanner, plannerSchema } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { clearEarlier, failureOfWave, sharedBase, sharesTree } from "../wave/shared-tree.ts";
import { clearSurroundings, keepsJobsApart } from "./surroundings.ts";

/** Names an attempt and the fence under which it may be touched (W4). */
export interface AttemptRefer {
  readonly attemptId: string;
  readonly fence: number;
}

export type LoadedAttempt = AttemptInContext;

export const loadAttempt = (ports: Pick<Ports, "store">, attemptId: string): Promise<LoadedAttempt> =>
  ports.store.attemptInContext(attemptId);

/**
 * Takes an attempt that was asked for. False when it is not ours to start: settled, fenced off or
 * already running.
 */
export async function claimAttempt(
  ports: Ports,
  { attemptId, fence, buildId }: AttemptRefer & { readonly buildId: string },
): Promise<boolean> {
  return ports.store.transaction("claim-attempt", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (build.status !== "running") return false;
    const [claimed] = await transaction.attempts.update(
      { id: attemptId, buildId, fence, status: ["requested", "starting"] },
      { status: "starting" },
    );
    if (claimed === undefined) return false;
    if (claimed.taskId !== null) {
      await transaction.tasks.update({ id: claimed.taskId, status: "assigned" }, { status: "running" });
    }
    return true;
  });
}

/**
 * Opens the attempt's clean tree at its base; one that is there already is its own, and may have
 * its job at work in it, or what that has left (W8). One without either is made afresh once the
 * machine was started anew.
 */
async function openTree(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { attempt, build, wave }: LoadedAttempt,
): Promise<void> {
  const { treePath } = attempt;
  const sha = sharesTree(attempt) ? await sharedBase(ports, build, wave) : attempt.baseSha;
  const mayHoldWork = sharesTree(attempt) || (await ports.store.jobs.find({ key: attempt.jobKey })) !== null;
  const reuse = mayHoldWork || "since-boot";
  await ports.workspace.openTree({ projectId: build.projectId, guest, treePath, sha, reuse });
}

/**
 * Opens the attempt's tree and starts its job there: setup, services, the agent, its acceptance
 * checks. False when it was settled meanwhile.
 */
export async function startAttemptJob(ports: Ports, refer: AttemptRefer): Promise<boolean> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, build } = loaded;
  if (attempt.fence !== refer.fence || attempt.status !== "starting") return attempt.status !== "settled";
  const endpoint = await ensureSandbox(ports, build);
  await openTree(ports, endpoint, loaded);
  if (sharesTree(attempt)) await clearEarlier(ports, endpoint, attempt);
  const [tree, { stages, setting }] = await Promise.all([
    endpoint.guest.stat(attempt.treePath),
    attemptStages(ports, endpoint, loaded),
  ]);
  // A volume that was lost since then took the tree along, and a job must not begin in an empty
  // folder.
  if (tree === null) await openTree(ports, endpoint, loaded);
  await readySurroundings(ports, endpoint, loaded);
  const isAtWork = await startJob(ports, endpoint, {
    key: attempt.jobKey,
    build,
    owner: { kind: "attempt", id: attempt.id, fence: attempt.fence },
    spec: {
      stages: [...setting.stages, ...stages],
      ...setting.reach,
      writable: [...setting.reach.writable, handoverPath(attempt.jobKey), ...homesOf(loaded)],
      ...(sharesTree(attempt) ? { shared: [attempt.treePath] } : {}),
      labels: { build: build.id, attempt: attempt.id },
    },
  });
  const [started] = await ports.store.attempts.update(
    { id: attempt.id, fence: refer.fence, status: "starting" },
    { status: "running", startedAt: ports.clock.now() },
  );
  if (started !== undefined || (isAtWork && !sharesTree(attempt))) return true;
  // Its job is over, or went with the tree that it shares, and nobody is told of that end: whoever
  // is settled closes what is left.
  return (await ports.store.attempts.get({ id: attempt.id })).status !== "settled";
}

/** Before an agent's job, and not once it is at work: then its home is its own. */
async function readySurroundings(ports: Ports, endpoint: SandboxEndpoint, loaded: LoadedAttempt): Promise<void> {
  const { attempt, build } = loaded;
  if (keepsJobsApart(build) || (await ports.store.jobs.find({ key: attempt.jobKey })) !== null) return;
  const isFirst = attempt.kind === "task" && attempt.number === 1;
  await clearSurroundings(ports, endpoint, { build, home: isFirst ? homeOf(loaded) : null });
}

async function attemptStages(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
): Promise<{ stages: StageSpec[]; setting: JobSetting }> {
  const { attempt, build, task } = loaded;
  const { plan } = build;
  const framing = frameJob({
    ports,
    endpoint,
    plan,
    projectId: build.projectId,
    sha: attempt.baseSha,
    treePath: attempt.treePath,
    shared: sharesTree(attempt),
    // The base of a wave is in main; a fix and generated files begin on its head, which no gate has
    // judged.
    ...(attempt.kind === "task" ? { mayFill: { build, waveId: attempt.waveId } } : {}),
    ...(task === null ? {} : { env: task.definition.env }),
    mentions: commandsOf(loaded),
  });
  const generates = attempt.kind === "generate";
  const [setting, pack] = await Promise.all([framing, generates ? null : handOver(ports, endpoint, loaded)]);
  const base = { env: setting.env, cwd: attempt.treePath };
  if (pack === null) {
    const again = plan.generated.filter(({ path }) => attempt.paths.some((made) => matchesAny([path], made)));
    const stages = again.map((entry) =>
      stage({ ...base, name: `generate ${entry.path}`, argv: shell(entry.by), timeoutMs: 15 * 60_000 }),
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
            argv: shell(acceptance.check),
            timeoutMs: Math.min(task!.definition.timeoutMs, 10 * 60_000),
            continueOnFailure: true,
          }),
        ],
  );
  return { stages: [agent, ...checks], setting };
}

/**
 * The commands of an attempt, when they tell all it may need; null for an agent, whose needs are
 * unknown.
 */
function commandsOf({ attempt, build, task }: LoadedAttempt): string[] | null {
  if (attempt.kind === "generate") return build.plan.generated.map((entry) => entry.by);
  if (task === null || task.definition.run === null) return null;
  return [task.definition.run, ...task.definition.acceptance.flatMap(({ check }) => check ?? [])];
}

/** Puts what the agent is to know into its hand-over folder. */
async function handOver(ports: Ports, { guest }: SandboxEndpoint, loaded: LoadedAttempt): Promise<ContextPack> {
  const { attempt, task } = loaded;
  const make = isPlanner(loaded) ? planPack : taskPack;
  const pack = task === null ? await fixPack(ports, loaded) : await make(ports, loaded, task);
  await guest.writeFile(`${handoverPath(attempt.jobKey)}/task.json`, pack.taskFile);
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

/** Fixes of one wave share a home: the next round knows what the one before tried. */
const homeOf = ({ attempt, build, wave, task }: LoadedAttempt): string =>
  homePath(build.id, task?.key ?? `${attempt.kind}-${wave.number}`);

/** Scripts and commands have none: theirs is empty each time. */
export function homesOf(loaded: LoadedAttempt): string[] {
  const { attempt, build, task } = loaded;
  if (attempt.kind === "generate" || (task !== null && task.definition.run !== null)) return [];
  const runtime = agentSpecFor(build.plan, attempt.role)?.runtime;
  return runtime === "acp" || runtime === "builtin" ? [homeOf(loaded)] : [];
}

/** A fixer may take as long as the longest task of the plan. */
const fixTimeoutMs = (plan: Plan): number => Math.max(...plan.tasks.map((task) => task.timeoutMs));

async function taskPack(ports: Ports, { attempt, build, wave }: LoadedAttempt, task: TaskRow): Promise<ContextPack> {
  const { store, agents } = ports;
  // What the plan says of the whole, every prompt says.
  const keys = task.definition.dependsOn.filter((key) => !makesPlan(build, key));
  const needed = keys.length === 0 ? [] : await store.tasks.list({ buildId: build.id, key: keys }, { by: "position" });
  const context: TaskContext = {
    plan: build.plan,
    task: task.definition,
    attempt: attempt.number,
    waveNumber: wave.number,
    dependencies: needed.map(({ key, definition, summary, changedFiles }) => ({
      key,
      title: definition.title,
      summary,
      changedFiles,
    })),
    previousFailure: await previousFailure(ports, build, { taskId: task.id, isFirst: attempt.number === 1 }),
    conflicts: task.conflicts,
  };
  return agents.taskPack(context);
}

async function planPack(ports: Ports, loaded: LoadedAttempt, task: TaskRow): Promise<ContextPack> {
  const { attempt, build, wave } = loaded;
  return ports.agents.planPack({
    plan: build.plan,
    task: task.definition,
    attempt: attempt.number,
    waveNumber: wave.number,
    earlier: await earlierPlan(ports, loaded),
  });
}

async function previousFailure(
  ports: Ports,
  build: LoadedAttempt["build"],
  { taskId, isFirst }: { taskId: string; isFirst: boolean },
): Promise<TaskContext["previousFailure"]> {
  const ofWave = build.plan.isolation === "shared" ? await failureOfWave(ports, build, taskId) : null;
  if (ofWave !== null) return { reason: ofWave, outputTail: "" };
  if (isFirst) return null;
  const previous = await ports.store.attempts.find(
    { taskId, status: "settled", outcome: ["failed", "timed-out", "lost", "refused"] },
    { by: "number", descending: true },
  );
  return previous === null ? null : { reason: previous.reason ?? "unknown", outputTail: previous.outputTail ?? "" };
}

async function fixPack(ports: Ports, { attempt, build, wave }: LoadedAttempt): Promise<ContextPack> {
  const { agents, workspace } = ports;
  const cause =
    attempt.gateRunId === null ? await rejectionOf(ports, attempt) : await gateCause(ports, attempt.gateRunId);
  const members = await waveMembers(ports, wave.id);
  const changed = await workspace.changedFiles(build.projectId, wave.baseSha, attempt.baseSha);
  const context: FixContext = {
    plan: build.plan,
    waveNumber: wave.number,
    round: wave.fixRounds,
    maxRounds: build.plan.gates.maxFixRounds,
    ...cause,
    tasks: members.map((member) => member.definition),
    changedFiles: changed.map((file) => file.path),
    mayChangeTests: mayChangeTests(members),
  };
  return agents.fixPack(context);
}

type FixFindings = Pick<FixContext, "gate" | "findings" | "command" | "outputTail">;

async function gateCause({ store }: Ports, gateRunId: string): Promise<FixFindings> {
  const run = await store.gateRuns.get({ id: gateRunId });
  const findings = await store.findings.list({ gateRunId }, { by: "id" });
  const { command = null, outputTail = "" } = run.evidence ?? {};
  // A command that an agent wrote is no instruction of ours to another one.
  const added = failedOutput(run.evidence?.added);
  const how = added === null ? { command, outputTail } : { command: null, outputTail: added };
  return { gate: run.gate, findings: findings.map(findingOf), ...how };
}

/** What a person who rejected the wave wants changed. */
async function rejectionOf({ store }: Ports, attempt: AttemptRow): Promise<FixFindings> {
  const { reason } = await store.approvals.get({ id: attempt.approvalId! });
  const finding = {
    rule: "rejected",
    severity: "high" as const,
    message: reason ?? "",
    file: null,
    line: null,
    confidence: null,
  };
  return { gate: "approval", findings: [finding], command: null, outputTail: "" };
}

/** For a fix, tests may change only when every task of the wave says so (W7). */
export const mayChangeTests = (members: readonly TaskRow[]): boolean =>
  members.length > 0 && members.every((member) => member.definition.mayChangeTests);

export async function waveMembers(ports: Pick<Ports, "store">, waveId: string): Promise<TaskRow[]> {
  const members = await ports.store.waveTasks.list({ waveId });
  return ports.store.tasks.list({ id: members.map((member) => member.taskId) }, { by: "position" });
}

const findingOf = (row: FindingRow) => ({
  rule: row.rule,
  severity: row.severity,
  message: row.message,
  file: row.file,
  line: row.line,
  confidence: row.confidence === null ? null : row.confidence / 100,
});
