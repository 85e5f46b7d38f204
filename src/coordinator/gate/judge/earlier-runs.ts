import type { GateName } from "../../../domain/status.ts";
import type { EarlierCounts } from "../../../gates/port.ts";
import type { BuildRow, GateRunRow, TaskRow } from "../../../store/port.ts";
import type { Ports } from "../../port.ts";
import type { LoadedGate } from "../gate-run.ts";

// Finds the last time a gate passed on an ancestor of this work. A run that was rolled back, or
// whose wave was abandoned, is not an ancestor and does not count.

const maxRuns = 50;

/**
 * Returns the last passed run of a gate, in any build of the project, whose commit is `sha` or
 * below it.
 */
export async function passedBelow(
  { store, workspace }: Pick<Ports, "store" | "workspace">,
  { projectId }: BuildRow,
  gate: GateName,
  sha: string,
): Promise<GateRunRow | null> {
  const builds = await store.builds.pick({ projectId }, ["id"]);
  const where = { buildId: builds.map(({ id }) => id), gate, verdict: "passed" as const };
  const runs = await store.gateRuns.list(where, { by: "endedAt", descending: true, limit: maxRuns });
  for (const run of runs) {
    if (run.sha === sha || (await workspace.isAncestor(projectId, run.sha, sha))) return run;
  }
  return null;
}

/** Returns this gate's counts on the wave's base; null when there is nothing to compare with. */
export async function earlierCounts(
  ports: Ports,
  { run, build, wave, tasks }: LoadedGate,
): Promise<EarlierCounts | null> {
  const gate = run.gate === "critic" ? false : build.plan.gates[run.gate];
  // `minTests: 0` switches counting off.
  if (gate === false || ("minTests" in gate && gate.minTests === 0)) return null;
  const earlier = await passedBelow(ports, build, run.gate, wave.baseSha);
  const earlierTests = earlier?.evidence?.tests ?? null;
  if (earlier === null || earlierTests === null) return null;
  return {
    sha: earlier.sha,
    // A detected command depends on the files, so the agents may have changed it: compare anyway.
    command: gate.command === null ? null : (earlier.evidence?.command ?? null),
    tests: earlierTests,
    mayBeFewer: joinedIn(tasks, wave.id).some(({ definition }) => definition.mayChangeTests),
  };
}

const joinedIn = (tasks: readonly TaskRow[], waveId: string): TaskRow[] =>
  tasks.filter((task) => task.waveId === waveId && task.status === "completed");
