import { WavesmithError } from "../../../domain/errors.ts";
import type { AddedCheck, AddedChecks } from "../../../domain/gate/added-checks.ts";
import type { ProjectId } from "../../../domain/ids.ts";
import { itemAt } from "../../../domain/known.ts";
import { agentSpecFor } from "../../../domain/plan/plan.ts";
import { gateTreePath, handoverPath, homePath } from "../../../domain/sandbox/volume-paths.ts";
import type { ProposedCheck } from "../../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageSpec } from "../../../sandbox/port.ts";
import type { GateRunRow } from "../../../store/port.ts";
import { keepsJobsApart } from "../../guarded-files/surroundings.ts";
import { describeFailure, endText, failedStage, gateMask, overBudget, stageOutput } from "../../job/job-results.ts";
import type { Ports } from "../../port.ts";
import { addedEvidence } from "./added-evidence.ts";
import { askStage, type RunInWave, waveContext } from "./agent-question.ts";

// Asks the agent of the testing or integration gate for more checks once our own have passed, in
// its own job, tree and session. Its claims prove nothing: it submits commands, which we run
// (added-checks.ts).

const resultBytes = 1024 * 1024;

/** Returns whether the agent is being asked or its checks are running; null: neither. */
export const addedPhase = ({ evidence }: Pick<GateRunRow, "evidence">): AddedChecks["phase"] =>
  evidence?.added?.phase ?? null;

/** Returns a new home each time, because an earlier session was about another head. */
export const gateAgentHome = ({ run, build, wave }: RunInWave, fence = run.fence): string =>
  homePath(build.id, `${run.gate}-${wave.number}-${run.round}.${fence}`);

/** Returns the stage that asks the gate's agent for checks. */
export async function checksStage(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  env: Readonly<Record<string, string>>,
): Promise<StageSpec> {
  const { run, build } = loaded;
  const { added, command = null, exitCode = null, outputTail = "" } = addedEvidence(run);
  const { role, own } = added;
  const verdict = own.verdict === "absent" ? "absent" : "passed";
  const pack = ports.agents.checksPack({
    ...(await waveContext(ports, loaded)),
    gate: run.gate,
    role,
    outcome: { verdict, command, exitCode, outputTail },
  });
  const isNewHome = !keepsJobsApart(ports, build) && (await ports.store.jobs.find({ key: run.jobKey })) === null;
  return askStage(ports, endpoint, loaded, {
    spec: agentSpecFor(build.plan, role),
    role,
    pack,
    home: gateAgentHome(loaded),
    isNewHome,
    resultSchema: ports.gates.checksSchema,
    env,
  });
}

/** Reads the checks that the agent submitted, or why there are none. */
export async function proposedChecks(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<{ readonly checks: AddedCheck[] } | { readonly lack: string }> {
  const handedIn = await resultFile(ports, endpoint, loaded, state);
  if ("lack" in handedIn) return handedIn;
  try {
    const masked = ports.gates.parseChecks(handedIn.masked);
    const raw = ports.gates.parseChecks(handedIn.text);
    return { checks: await takeChecks(ports, endpoint, loaded, { masked, raw }) };
  } catch (error) {
    if (!(error instanceof WavesmithError && error.code === "usage")) throw error;
    return { lack: error.message };
  }
}

async function resultFile(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { run, build }: RunInWave,
  state: JobState,
): Promise<{ text: string; masked: string } | { lack: string }> {
  const jobKey = run.jobKey;
  if (state.cancelReason === overBudget) return { lack: "the plan's time limit was used up while it was at work" };
  const mask = await gateMask(ports, build, run);
  const stage = state.stages.find((candidate) => candidate.name === "agent");
  if (stage === undefined || stage.status !== "passed") {
    const before = failedStage(state);
    if (stage === undefined || stage.status === "skipped" || stage.status === "pending")
      return { lack: before === null ? "it was never started" : `it was not started: ${describeFailure(before)}` };
    const agentEnd = stage.timedOut ? null : ports.agents.endOf(await stageOutput(endpoint, jobKey, stage, mask));
    return { lack: `it did not finish: ${agentEnd === null ? describeFailure(stage) : endText(agentEnd)}` };
  }
  try {
    const file = await endpoint.guest.readFile(`${handoverPath(jobKey)}/result.json`, { maxBytes: resultBytes });
    if (file === null) return { lack: "it submitted no file of checks (WAVESMITH_RESULT_FILE)" };
    const text = file.toString("utf8");
    return { text, masked: mask(text) };
  } catch (error) {
    if (!(error instanceof WavesmithError && error.code === "guest-refused")) throw error;
    return { lack: `its file of checks cannot be read: ${mask(error.message)}` };
  }
}

interface Proposal {
  readonly masked: readonly ProposedCheck[];
  readonly raw: readonly ProposedCheck[];
}

/** Collects the facts about each check while the agent's tree still exists. */
async function takeChecks(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  { masked, raw }: Proposal,
): Promise<AddedCheck[]> {
  const { run, build } = loaded;
  const known = await committedPaths(ports, build.projectId, run.sha);
  const collected: AddedCheck[] = [];
  for (const [index, check] of masked.entries()) {
    const refused = refusalOf(endpoint, check, itemAt(raw, index));
    const needs = refused === null ? await ownPaths(ports, endpoint, loaded, { check, known }) : [];
    collected.push({ ...check, needs, refused, result: null });
  }
  return collected;
}

/** Returns why a check would prove nothing outside its agent's tree; null if it may run. */
function refusalOf({ workspaceRoot }: SandboxEndpoint, { command }: ProposedCheck, raw: ProposedCheck): string | null {
  if (command !== raw.command) return "it holds the value of a secret";
  const own = ["trees", "homes", "handover"].find((folder) => command.includes(`${workspaceRoot}/${folder}/`));
  return own === undefined ? null : "it names a folder of its agent's, which is gone by then";
}

/** Lists the files and folders of a commit. */
async function committedPaths({ workspace }: Ports, projectId: ProjectId, sha: string): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for (const { path } of await workspace.listFiles(projectId, sha)) {
    const parts = path.split("/");
    for (let length = 1; length <= parts.length; length += 1) known.add(parts.slice(0, length).join("/"));
  }
  return known;
}

/** Lists the paths that a check names and that exist only in its agent's tree. */
async function ownPaths(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { run, wave }: RunInWave,
  { check, known }: { readonly check: ProposedCheck; readonly known: ReadonlySet<string> },
): Promise<string[]> {
  const own: string[] = [];
  for (const path of ports.gates.pathsIn(check.command)) {
    if (known.has(path)) continue;
    if ((await guest.stat(`${gateTreePath(wave.number, run)}/${path}`)) !== null) own.push(path);
  }
  return own;
}
