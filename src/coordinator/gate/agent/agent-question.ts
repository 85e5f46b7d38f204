import type { AgentStageRequest } from "../../../agents/port.ts";
import { lockFileGlobs } from "../../../domain/paths/lock-files.ts";
import { providerToolsOf } from "../../../domain/sandbox/network.ts";
import { answersPath, gateTreePath, handoverPath } from "../../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint, StageSpec } from "../../../sandbox/port.ts";
import type { BuildRow, WaveRow } from "../../../store/port.ts";
import { clearSurroundings } from "../../guarded-files/surroundings.ts";
import type { Ports } from "../../port.ts";
import { waveMembers } from "../../wave/wave-members.ts";
import type { AskedGateRun } from "../gate-run.ts";

// Asks an agent for a gate. The agent works in the run's own tree, which it must not change, and
// submits a result of a given shape.

const agentTimeoutMs = 20 * 60_000;
const diffBytes = 256 * 1024;

/** A gate run with its build and wave. */
export interface RunInWave {
  readonly run: AskedGateRun;
  readonly build: BuildRow;
  readonly wave: WaveRow;
}

export interface GateQuestion extends Pick<AgentStageRequest, "spec" | "role" | "pack" | "resultSchema" | "env"> {
  /** Where the agent keeps its session; emptied first when `isNewHome`. */
  readonly home: string;
  readonly isNewHome: boolean;
}

/** Returns the stage that asks the agent, and writes its prompt into the run's folder. */
export async function askStage(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { run, build, wave }: RunInWave,
  { home, isNewHome, ...question }: GateQuestion,
): Promise<StageSpec> {
  const jobKey = run.jobKey;
  const folder = handoverPath(jobKey);
  await clearSurroundings(ports, endpoint, { build, home: isNewHome ? home : null });
  await endpoint.guest.writeFile(`${folder}/task.json`, question.pack.taskFile);
  const agentStage = ports.agents.agentStage({
    ...question,
    run: null,
    images: [],
    treePath: gateTreePath(wave.number, run),
    taskFilePath: `${folder}/task.json`,
    resultFilePath: `${folder}/result.json`,
    workspaceRoot: endpoint.workspaceRoot,
    timeoutMs: agentTimeoutMs,
    homePath: home,
    modelToken: await ports.models.tokenFor("gate", run.id, run.fence),
    providerTools: providerToolsOf(build.network, build.plan),
    readOnly: true,
    answersPath: build.interactive ? answersPath(jobKey) : null,
  });
  return { ...agentStage, continueOnFailure: true };
}

/** Returns the facts about the wave for a gate's agent. */
export async function waveContext(ports: Ports, { run, build, wave }: RunInWave) {
  const projectId = build.projectId;
  const changed = await ports.workspace.changedFiles(projectId, wave.baseSha, run.sha);
  return {
    plan: build.plan,
    waveNumber: wave.number,
    tasks: (await waveMembers(ports, wave.id)).map((task) => task.definition),
    changedFiles: changed.map((file) => file.path),
    diff: await ports.workspace.diff(projectId, wave.baseSha, run.sha, { maxBytes: diffBytes, except: lockFileGlobs }),
  };
}
