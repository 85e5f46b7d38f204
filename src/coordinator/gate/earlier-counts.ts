import type { GateName } from "../../domain/status.ts";
import type { EarlierCounts } from "../../gates/port.ts";
import type { BuildRow, GateRunRow, TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import type { LoadedGate } from "./gate-run.ts";

// What a gate may count on: the last time it passed on a commit that this work stands on. A run
// that was rolled back, or whose wave was given up, is not below the base and counts for nothing.

const mostRuns = 50;

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
  const runs = await store.gateRuns.list(where, { by: "endedAt", descending: true, limit: mostRuns });
  for (const run of runs) {
    if (run.sha === sha || (await workspace.isAncestor(projectId, run.sha, sha))) return run;
  }
  return null;
}

/**
 * Returns what this gate counted on the wave's base; null when there is nothing to compare with.
 */
export async function earlierCounts(
  ports: Ports,
  { run, build, wave, tasks }: LoadedGate,
): Promise<EarlierCounts | null> {
  const gate = run.gate === "critic" ? false : build.plan.gates[run.gate];
  // `minTests: 0` switches counting off.
  if (gate === false || ("minTests" in gate && gate.minTests === 0)) return null;
  const earlier = await passedBelow(ports, build, run.gate, wave.baseSha);
  const counted = earlier?.evidence?.tests ?? null;
  if (earlier === null || counted === null) return null;
  return {
    sha: earlier.sha,
    // A detected command follows from the files, so a change of it is the agents' doing and is
    // compared all the same.
    command: gate.command === null ? null : (earlier.evidence?.command ?? null),
    tests: counted,
    mayBeFewer: joinedIn(tasks, wave.id).some(({ definition }) => definition.mayChangeTests),
  };
}

const joinedIn = (tasks: readonly TaskRow[], waveId: string): TaskRow[] =>
  tasks.filter((task) => task.waveId === waveId && task.status === "completed");
