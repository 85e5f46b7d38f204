import type { Finding } from "../../../domain/gate/finding.ts";
import type { JobState } from "../../../sandbox/port.ts";
import { ensureSandbox } from "../../../sandbox-lifecycle/ensure-sandbox.ts";
import { gateMask, stageOutput } from "../../job/job-results.ts";
import type { Ports } from "../../port.ts";
import type { LoadedGate } from "../gate-run.ts";

export async function criticChecks(ports: Ports, { run, build, wave }: LoadedGate) {
  const changed = await ports.workspace.changedFiles(build.projectId, wave.baseSha, run.sha);
  return ports.gates.syntaxChecks(changed);
}

/** Reads the findings of the syntax checks that ran in the sandbox. */
export async function syntaxFindings(ports: Ports, loaded: LoadedGate, state: JobState): Promise<Finding[]> {
  const { run, build } = loaded;
  const endpoint = await ensureSandbox(ports, build);
  const mask = await gateMask(ports, build, run);
  const found: Finding[] = [];
  for (const check of await criticChecks(ports, loaded)) {
    const stage = state.stages.find((candidate) => candidate.name === check.name);
    if (stage === undefined || stage.status !== "failed") continue;
    found.push(...ports.gates.syntaxFindings(check, stage, await stageOutput(endpoint, run.jobKey, stage, mask)));
  }
  return found;
}
