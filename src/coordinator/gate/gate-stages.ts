import { present } from "../../domain/known.ts";
import { gateTreePath, handoverPath } from "../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { type JobSetting, prepareJob } from "../job/job-setting.ts";
import { dropJob, shellArgv, stage } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { addedStages } from "./agent/added-checks.ts";
import { criticAgent, criticHome, reviewStage } from "./agent/critic-review.ts";
import { addedPhase, checksStage, gateAgentHome } from "./agent/proposed-checks.ts";
import { previewIsDue } from "./gate-due.ts";
import { type AskedGateRun, jobKeysOf, type LoadedGate } from "./gate-run.ts";
import { acceptanceChecks, type GateWork, gateWork } from "./gate-work.ts";
import { criticChecks } from "./judge/syntax-checks.ts";
import { reportEnv } from "./judge/test-reports.ts";

interface GateStages {
  readonly endpoint: SandboxEndpoint;
  readonly setting: JobSetting;
  readonly own: StageSpec[];
}

/** Returns the stages of a gate's job; null when there is nothing to run. */
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
  const setting = await prepareJob({
    ports,
    endpoint,
    plan: plain ? { ...build.plan, setup: null } : build.plan,
    projectId: build.projectId,
    sha: run.sha,
    treePath,
    ownCache: ownCacheOf(run),
    // We cannot tell from its name what `npm test` needs; the critic's checks need nothing.
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
            argv: shellArgv(work.command),
            timeoutMs: work.timeoutMs,
          }),
        ];
  const rest = run.gate === "integration" ? integrationStages(loaded, setting, treePath, work.timeoutMs) : [];
  return { endpoint, setting, own: [...main.map((spec) => ({ ...spec, continueOnFailure: true })), ...rest] };
}

/** Returns the run's own package cache, which no task and no other gate writes to. */
const ownCacheOf = ({ jobKey }: AskedGateRun): string => `${handoverPath(jobKey)}/cache`;

/** Returns the environment of the gate's command, with the report's path for the testing gate. */
function reporting({ run, build }: LoadedGate, { workspaceRoot }: SandboxEndpoint, { env }: JobSetting) {
  const { testing } = build.plan.gates;
  if (run.gate !== "testing" || testing === false) return { env };
  return { env: { ...env, ...reportEnv(testing.report, run.jobKey, { env, workspaceRoot }) } };
}

/** Opens a clean tree for the run's job, after ending the run's earlier jobs. */
async function openGate(ports: Ports, { run, build, wave }: LoadedGate): Promise<SandboxEndpoint> {
  const endpoint = await ensureSandbox(ports, build);
  for (const key of jobKeysOf(run).slice(0, -1)) await dropJob(ports, endpoint, key);
  await ports.workspace.openTree({
    projectId: build.projectId,
    guest: endpoint.guest,
    treePath: gateTreePath(wave.number, run),
    sha: run.sha,
    // If the same request is handled twice, the second must not replace the first one's tree.
    reuse: "since-boot",
  });
  return endpoint;
}

/** Returns the stages for asking the gate's agent, or for running the checks it added. */
async function stagesToAdd(ports: Ports, loaded: LoadedGate): Promise<GateStages> {
  const { run, build, wave } = loaded;
  const endpoint = await openGate(ports, loaded);
  // Remove the trees of the run's earlier jobs, because their files are not part of the commit.
  for (let fence = 0; fence < run.fence; fence += 1)
    await ports.workspace.closeTree(endpoint.guest, gateTreePath(wave.number, { ...run, fence }));
  const { plan, projectId } = build;
  const treePath = gateTreePath(wave.number, run);
  const setting = await prepareJob({
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

/** Returns the integration stages: the preview's boot, then every acceptance check again. */
function integrationStages(
  { build, tasks }: LoadedGate,
  setting: JobSetting,
  treePath: string,
  timeoutMs: number,
): StageSpec[] {
  const base = { env: setting.env, cwd: treePath };
  const checks = acceptanceChecks(tasks).map(({ taskKey, check }, index) =>
    stage({
      ...base,
      name: `check ${index + 1} (${taskKey})`,
      argv: shellArgv(check),
      timeoutMs,
      continueOnFailure: true,
    }),
  );
  if (!previewIsDue(build, tasks)) return checks;
  const preview = present(build.plan.preview, "build.plan.preview");
  const boot = stage({
    ...base,
    name: "preview boot",
    argv: shellArgv(preview.command),
    timeoutMs: 60_000,
    continueOnFailure: true,
  });
  const ready = { http: { port: setting.port, path: preview.healthPath } };
  // A job that ends with a background stage would run until that stage dies.
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

/** Returns the homes that a gate's job may write, which no other job writes. */
export function gateHomes(loaded: LoadedGate): string[] {
  if (loaded.run.gate === "critic") return [criticHome(loaded)];
  return addedPhase(loaded.run) === "asking" ? [gateAgentHome(loaded)] : [];
}
