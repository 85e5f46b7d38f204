import type { SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { GateRunRow } from "../../store/port.ts";
import { frameJob, type JobSetting } from "../job/frame-job.ts";
import { dropJob, shell, stage } from "../job/job-stages.ts";
import { gateTreePath, handoverPath } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { addedStages } from "./added-checks.ts";
import { criticAgent, criticHome, reviewStage } from "./critic-review.ts";
import { addedPhase, checksStage, gateAgentHome } from "./gate-agent.ts";
import { previewIsDue } from "./gate-due.ts";
import { reportEnv } from "./gate-reports.ts";
import { jobKeysOf, type LoadedGate } from "./gate-run.ts";
import { acceptanceChecks, type GateWork, gateWork } from "./gate-work.ts";
import { criticChecks } from "./syntax-checks.ts";

interface GateStages {
  readonly endpoint: SandboxEndpoint;
  readonly setting: JobSetting;
  readonly own: StageSpec[];
}

/** The job's stages; null when there is nothing to run. */
export async function gateStagesOf(ports: Ports, loaded: LoadedGate): Promise<GateStages | null> {
  if (addedPhase(loaded.run) !== null) return stagesToAdd(ports, loaded);
  const work = await gateWork(ports, loaded);
  return work.kind === "verdict" ? null : gateStages(ports, loaded, work);
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

/** Where the job may keep what its agent is to know the next time: nobody else writes there. */
export function gateHomes(loaded: LoadedGate): string[] {
  if (loaded.run.gate === "critic") return [criticHome(loaded)];
  return addedPhase(loaded.run) === "asking" ? [gateAgentHome(loaded)] : [];
}
