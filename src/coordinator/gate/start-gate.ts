import { liveGateRunStatuses, type Verdict } from "../../domain/status.ts";
import type { SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { BuildRow, GateRunRow, TaskRow, WaveRow } from "../../store/port.ts";
import { emitFor, gateRunFacts } from "../build-events.ts";
import { commitReader } from "../commit-reader.ts";
import { frameJob, type JobSetting } from "../job/frame-job.ts";
import { dropJob, shell, stage, startJob } from "../job/job-stages.ts";
import { gateTreePath, handoverPath } from "../names.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { addedStages } from "./added-checks.ts";
import { criticAgent, criticHome, reviewStage } from "./critic-review.ts";
import { addedPhase, checksStage, gateAgentHome } from "./gate-agent.ts";
import { reportEnv } from "./gate-reports.ts";

// W6. Gates run on a clean tree of one SHA that nobody writes to, and a verdict counts for that SHA
// alone.

export interface GateRefer {
  readonly gateRunId: string;
  readonly fence: number;
}

export interface LoadedGate {
  readonly run: GateRunRow;
  readonly build: BuildRow;
  readonly wave: WaveRow;
  readonly tasks: readonly TaskRow[];
}

export async function loadGate(ports: Ports, gateRunId: string): Promise<LoadedGate> {
  const { store } = ports;
  const run = await store.gateRuns.get({ id: gateRunId });
  const build = await store.builds.get({ id: run.buildId });
  const wave = await store.waves.get({ id: run.waveId });
  const tasks = await store.tasks.list({ buildId: build.id }, { by: "position" });
  return { run, build, wave, tasks };
}

export const gateJobKey = (gateRunId: string, fence: number): string => `${gateRunId}-${fence}`;
/** The keys of all jobs a run may have had: one for each time it was asked for. */
export const jobKeysOf = ({ id, fence }: Pick<GateRunRow, "id" | "fence">): string[] =>
  Array.from({ length: fence + 1 }, (_, number) => gateJobKey(id, number));

/** What a gate is to do at this point of its build. */
export type GateWork =
  | { readonly kind: "verdict"; readonly verdict: Verdict; readonly note: string }
  | { readonly kind: "command"; readonly command: string; readonly timeoutMs: number }
  | { readonly kind: "checks" };

/** Whether anything is still to come after this wave. */
const isLastWave = (tasks: readonly TaskRow[]): boolean => !tasks.some((task) => task.status === "pending");

function notDue(
  gate: { from: string | null; when: "each" | "final" },
  tasks: readonly TaskRow[],
): { kind: "verdict"; verdict: "not-due"; note: string } | null {
  const say = (note: string) => ({ kind: "verdict" as const, verdict: "not-due" as const, note });
  const from = gate.from === null ? undefined : tasks.find((task) => task.key === gate.from);
  if (from !== undefined && from.status !== "completed") return say(`due once task ${from.key} is joined`);
  if (gate.when === "final" && !isLastWave(tasks)) return say("due in the last wave");
  return null;
}

const off = { kind: "verdict", verdict: "off", note: "switched off in the plan" } as const;

/** Decides what the gate has to do; the same for the same plan, tasks and commit. */
export async function gateWork(ports: Ports, { run, build, tasks }: LoadedGate): Promise<GateWork> {
  const settings = build.plan.gates;
  if (run.gate === "critic") return settings.critic === false ? off : { kind: "checks" };
  const gate = settings[run.gate];
  if (gate === false) return off;
  const early = notDue(gate, tasks);
  if (early !== null) return early;
  if (run.gate === "integration") return integrationWork({ run, build, tasks });
  const found =
    gate.command ?? (await ports.gates.detectTests(commitReader(ports, build.projectId, run.sha)))?.command ?? null;
  if (found !== null) return { kind: "command", command: found, timeoutMs: gate.timeoutMs };
  return { kind: "verdict", verdict: "absent", note: "no test command is configured and none was detected" };
}

function integrationWork({ build, tasks }: Pick<LoadedGate, "run" | "build" | "tasks">): GateWork {
  const gate = build.plan.gates.integration;
  if (gate === false) return off;
  const nothing = gate.command === null && !previewIsDue(build, tasks) && acceptanceChecks(tasks).length === 0;
  if (nothing) return { kind: "verdict", verdict: "absent", note: "no command, preview or acceptance check to run" };
  return { kind: "command", command: gate.command ?? "", timeoutMs: gate.timeoutMs };
}

/**
 * The preview is booted once `gates.integration.from` is joined, or without one in the last wave.
 */
export function previewIsDue(build: BuildRow, tasks: readonly TaskRow[]): boolean {
  if (build.plan.preview === null) return false;
  const { integration } = build.plan.gates;
  if (integration !== false && integration.from !== null) {
    return tasks.some((task) => task.key === integration.from && task.status === "completed");
  }
  return isLastWave(tasks);
}

/** The acceptance checks of every task that is joined, in plan order. */
export function acceptanceChecks(tasks: readonly TaskRow[]): { taskKey: string; check: string }[] {
  return tasks
    .filter((task) => task.status === "completed")
    .flatMap((task) =>
      task.definition.acceptance.flatMap(({ check }) => (check === null ? [] : [{ taskKey: task.key, check }])),
    );
}

/** Takes a gate run that was asked for. False when it is not ours to start. */
export async function claimGate(ports: Ports, { gateRunId, fence }: GateRefer): Promise<boolean> {
  const { buildId } = await ports.store.gateRuns.get({ id: gateRunId });
  return ports.store.transaction("claim-gate", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const run = await transaction.gateRuns.get({ id: gateRunId });
    if (run.fence !== fence || run.status === "finished") return false;
    if (build.status !== "running") {
      await abandonGate(transaction, ports, run.id);
      await advance(transaction, ports, buildId);
      return false;
    }
    await transaction.gateRuns.update({ id: gateRunId, fence, status: "requested" }, { status: "running" });
    return true;
  });
}

/** Ends a gate run nobody needs any more: its verdict is not known. */
export async function abandonGate(
  transaction: Parameters<Parameters<Ports["store"]["transaction"]>[1]>[0],
  ports: Ports,
  gateRunId: string,
): Promise<void> {
  await transaction.gateRuns.update(
    { id: gateRunId, status: liveGateRunStatuses },
    { status: "finished", verdict: "inconclusive", reason: "the build was cancelled", endedAt: ports.clock.now() },
  );
}

/**
 * Starts the gate's job on a clean tree, or, when there is nothing to run, says at once that it has
 * finished. False when the job was over already: somebody else may have closed the tree before it
 * was opened here.
 */
export async function startGateJob(ports: Ports, refer: GateRefer): Promise<boolean> {
  const loaded = await loadGate(ports, refer.gateRunId);
  const { run, build, wave } = loaded;
  if (run.fence !== refer.fence || run.status !== "running") return true;
  const stages = await stagesOf(ports, loaded);
  if (stages === null) {
    await finishAtOnce(ports, loaded);
    return true;
  }
  const treePath = gateTreePath(wave.number, run);
  const { endpoint, setting, own } = stages;
  return startJob(ports, endpoint, {
    key: run.jobKey!,
    build,
    owner: { kind: "gate", id: run.id, fence: run.fence },
    spec: {
      stages: [...setting.stages, ...own],
      ...setting.reach,
      writable: [...setting.reach.writable, handoverPath(run.jobKey!), ...homesOf(loaded)],
      labels: { build: build.id, gate: run.id, tree: treePath },
    },
  });
}

/** The job's stages; null when there is nothing to run. */
async function stagesOf(ports: Ports, loaded: LoadedGate): Promise<GateStages | null> {
  if (addedPhase(loaded.run) !== null) return stagesToAdd(ports, loaded);
  const work = await gateWork(ports, loaded);
  return work.kind === "verdict" ? null : gateStages(ports, loaded, work);
}

/** Where the job may keep what its agent is to know the next time: nobody else writes there. */
function homesOf(loaded: LoadedGate): string[] {
  if (loaded.run.gate === "critic") return [criticHome(loaded)];
  return addedPhase(loaded.run) === "asking" ? [gateAgentHome(loaded)] : [];
}

async function finishAtOnce(ports: Ports, { run, build, wave }: LoadedGate): Promise<void> {
  await ports.store.transaction("gate-without-job", async (transaction) => {
    await emitFor(transaction, build, "agent/gate.finished", run.id, run.fence, {
      ...gateRunFacts(run, wave, run.fence),
      jobKey: null,
    });
  });
}

interface GateStages {
  readonly endpoint: SandboxEndpoint;
  readonly setting: JobSetting;
  readonly own: StageSpec[];
}

async function gateStages(
  ports: Ports,
  loaded: LoadedGate,
  work: Exclude<GateWork, { kind: "verdict" }>,
): Promise<GateStages | null> {
  const { run, build, wave } = loaded;
  const treePath = gateTreePath(wave.number, run);
  const plain = run.gate === "critic";
  const checks = plain ? await criticChecks(ports, loaded) : null;
  if (plain && checks!.length === 0 && criticAgent(build) === null) return null;
  const endpoint = await openGate(ports, loaded);
  const setting = await frameJob({
    ports,
    endpoint,
    plan: plain ? { ...build.plan, setup: null } : build.plan,
    projectId: build.projectId,
    sha: run.sha,
    treePath,
    ownCache: ownCacheOf(run),
    // What `npm test` needs cannot be told from its name; the critic's checks need nothing.
    mentions: plain ? [] : null,
  });
  const base = { env: setting.env, cwd: treePath };
  if (work.kind === "checks")
    return { endpoint, setting, own: await criticStages(ports, endpoint, loaded, setting, checks!) };
  const main =
    work.command === ""
      ? []
      : [
          stage({
            ...base,
            ...reporting(loaded, endpoint, setting),
            name: run.gate,
            argv: shell(work.command),
            timeoutMs: work.timeoutMs,
          }),
        ];
  const rest = run.gate === "integration" ? integrationStages(loaded, setting, treePath, work.timeoutMs) : [];
  return { endpoint, setting, own: [...main.map((spec) => ({ ...spec, continueOnFailure: true })), ...rest] };
}

/**
 * Package managers of a gate fill a cache of its own, which ends with it: no task and no other gate
 * writes there.
 */
const ownCacheOf = ({ jobKey }: GateRunRow): string => `${handoverPath(jobKey!)}/cache`;

/** The environment of the gate's command: the testing gate may say where its report goes. */
function reporting({ run, build }: LoadedGate, { workspaceRoot }: SandboxEndpoint, { env }: JobSetting) {
  const { testing } = build.plan.gates;
  if (run.gate !== "testing" || testing === false) return { env };
  return { env: { ...env, ...reportEnv(testing.report, run.jobKey!, { env, workspaceRoot }) } };
}

/** A clean tree for the run's job; whatever is left of earlier jobs of the run is ended first. */
async function openGate(ports: Ports, { run, build, wave }: LoadedGate): Promise<SandboxEndpoint> {
  const endpoint = await ensureSandbox(ports, build);
  for (const key of jobKeysOf(run).slice(0, -1)) await dropJob(ports, endpoint, key);
  await ports.workspace.openTree({
    projectId: build.projectId,
    guest: endpoint.guest,
    treePath: gateTreePath(wave.number, run),
    sha: run.sha,
    // Whoever takes the same request twice must not take the tree from under the job of the first.
    reuse: "since-boot",
  });
  return endpoint;
}

/** The gate's agent, or the checks it added: once our own have held, and in a job as they had. */
async function stagesToAdd(ports: Ports, loaded: LoadedGate): Promise<GateStages> {
  const { run, build, wave } = loaded;
  const endpoint = await openGate(ports, loaded);
  // What an earlier job of the run left in its tree is no part of the commit.
  for (let fence = 0; fence < run.fence; fence += 1)
    await ports.workspace.closeTree(endpoint.guest, gateTreePath(wave.number, { ...run, fence }));
  const { plan, projectId } = build;
  const treePath = gateTreePath(wave.number, run);
  const setting = await frameJob({
    ports,
    endpoint,
    plan,
    projectId,
    sha: run.sha,
    treePath,
    ownCache: ownCacheOf(run),
    mentions: null,
  });
  const asks = addedPhase(run) === "asking";
  const own = asks ? [await checksStage(ports, endpoint, loaded, setting.env)] : addedStages(loaded, setting, treePath);
  return { endpoint, setting, own };
}

/** Boot of the preview, then every acceptance check again. */
function integrationStages(
  { build, tasks }: LoadedGate,
  setting: JobSetting,
  treePath: string,
  timeoutMs: number,
): StageSpec[] {
  const base = { env: setting.env, cwd: treePath };
  const checks = acceptanceChecks(tasks).map(({ taskKey, check }, index) =>
    stage({ ...base, name: `check ${index + 1} (${taskKey})`, argv: shell(check), timeoutMs, continueOnFailure: true }),
  );
  if (!previewIsDue(build, tasks)) return checks;
  const preview = build.plan.preview!;
  const boot = stage({
    ...base,
    name: "preview boot",
    argv: shell(preview.command),
    timeoutMs: 60_000,
    continueOnFailure: true,
  });
  const ready = { http: { port: setting.port, path: preview.healthPath } };
  // A job that ends with a background stage would run until that one dies.
  const answered = stage({ ...base, name: "preview answered", argv: ["true"], timeoutMs: 60_000 });
  return [{ ...boot, background: true, ready }, ...checks, answered];
}

export async function criticChecks(ports: Ports, { run, build, wave }: LoadedGate) {
  const changed = await ports.workspace.changedFiles(build.projectId, wave.baseSha, run.sha);
  return ports.gates.syntaxChecks(changed);
}

async function criticStages(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedGate,
  setting: JobSetting,
  checks: Awaited<ReturnType<typeof criticChecks>>,
): Promise<StageSpec[]> {
  const { run, build, wave } = loaded;
  const treePath = gateTreePath(wave.number, run);
  const syntax = checks.map((check) =>
    stage({
      name: check.name,
      argv: check.argv,
      env: setting.env,
      cwd: treePath,
      timeoutMs: 120_000,
      continueOnFailure: true,
    }),
  );
  const spec = criticAgent(build);
  if (spec === null) return syntax;
  return [...syntax, await reviewStage(ports, endpoint, loaded, { spec, env: setting.env })];
}
