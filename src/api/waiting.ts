import type { StatusAttempt, StatusView, StatusWave, TaskView } from "../coordinator/build/build-view.ts";
import { makesPlan } from "../domain/plan/brief.ts";
import { findTask } from "./view-index.ts";

// Describes what a task or build waits for.

export const currentWave = <Wave>({ waves }: { readonly waves: readonly Wave[] }): Wave | null => waves.at(-1) ?? null;

/** The task's open attempt; null if it has none. */
export function liveAttempt<Attempt extends StatusAttempt>(
  view: { readonly waves: readonly { readonly attempts: readonly Attempt[] }[] },
  taskKey: string,
): Attempt | null {
  const wave = currentWave(view);
  return wave?.attempts.find((attempt) => attempt.taskKey === taskKey && attempt.status !== "settled") ?? null;
}

/** The reason why the task is not running yet, in words; null if it runs or has ended. */
export function waitText(view: StatusView, task: TaskView): string | null {
  if (task.status === "pending") return pendingText(view, task);
  if (task.status === "joining") return "waiting for the other tasks of the wave";
  if (task.status !== "assigned") return null;
  if (liveAttempt(view, task.key) !== null) return "waiting for its tree";
  return `waiting for capacity (${runningCount(view)} at work)`;
}

const runningCount = (view: StatusView): number =>
  currentWave(view)?.attempts.filter((attempt) => attempt.status !== "settled").length ?? 0;

function pendingText(view: StatusView, task: TaskView): string {
  const missing = task.definition.dependsOn.filter((key) => {
    const status = findTask(view, key)?.status;
    return status !== "completed" && status !== "removed";
  });
  if (missing.length > 0) return `waiting for ${listed(missing)}`;
  const wave = currentWave(view);
  if (wave === null) return "waiting for the first wave";
  if (wave.status === "gating" || wave.status === "fixing") return `waiting for the gates of wave ${wave.number}`;
  if (["passed", "failed"].includes(wave.status)) return "waiting for the next wave";
  return roleIsFull(view, wave, task) ?? `waiting for wave ${wave.number} to pass`;
}

/**
 * Says that the wave already has as many tasks of this role as it may have; null if there is room.
 */
function roleIsFull({ build, tasks }: StatusView, wave: StatusWave, { agent }: TaskView): string | null {
  const most = build.plan.limits.tasksPerAgentPerWave;
  const members = new Set(wave.taskKeys);
  const ofRole = tasks.filter((task) => task.agent === agent && members.has(task.key)).length;
  return ofRole < most ? null : `role ${agent} is full (${most} per wave)`;
}

function listed(keys: readonly string[]): string {
  const shown = keys.slice(0, 3).join(", ");
  return keys.length > 3 ? `${shown} and ${keys.length - 3} more` : shown;
}

/** Returns what a build is doing or waiting for. */
export function phaseOf(view: StatusView): string {
  const { build } = view;
  const wave = currentWave(view);
  switch (build.status) {
    case "queued":
      return "waiting for its turn: one build of a project runs at a time";
    case "waiting":
      if (waveOfWaitingPlan(view) !== null) return "its plan is waiting for approval";
      if (wave?.status === "waiting") return `wave ${wave.number} is waiting for approval`;
      return "waiting to be resumed";
    case "cancelling":
      return "stopping its jobs and keeping their work";
    case "running":
      return runningPhase(view, wave);
    default:
      return build.status;
  }
}

function runningPhase(view: StatusView, wave: StatusWave | null): string {
  if (view.waitsForSandbox !== null) return `waiting for a free sandbox slot: ${view.waitsForSandbox}`;
  if (wave === null) return view.build.headSha === null ? "reading the source" : "opening the sandbox";
  switch (wave.status) {
    case "running":
      if (wave.taskKeys.some((key) => makesPlan(view.build, key))) return `wave ${wave.number}: planning`;
      return `wave ${wave.number}: running tasks`;
    case "joining":
      return wave.headSha === null
        ? `wave ${wave.number}: joining branches`
        : `wave ${wave.number}: regenerating generated files`;
    case "gating":
      return `wave ${wave.number}: ${gateAtWork(wave)}`;
    case "fixing":
      return `wave ${wave.number}: fix round ${wave.fixRounds} of ${view.build.plan.gates.maxFixRounds}`;
    case "passed":
      return `wave ${wave.number}: delivering`;
    default:
      return `wave ${wave.number}: ${wave.status}`;
  }
}

function gateAtWork(wave: StatusWave): string {
  const gate = wave.gates.find((candidate) => candidate.status !== "finished");
  if (gate === undefined) return "between gates";
  const added = gate.evidence?.added;
  const what =
    added?.phase === "asking"
      ? `, agent ${added.role} at work`
      : added?.phase === "running"
        ? ", checks of its agent"
        : "";
  return `${gate.gate} gate${what}`;
}

/** The wave whose drafted plan waits for approval; null if there is none. */
export function waveOfWaitingPlan<Wave extends Pick<StatusWave, "status" | "taskKeys">>({
  build,
  waves,
}: Pick<StatusView, "build"> & { readonly waves: readonly Wave[] }): Wave | null {
  const wave = waves.at(-1);
  if (build.status !== "waiting" || wave?.status !== "waiting") return null;
  return wave.taskKeys.some((key) => makesPlan(build, key)) ? wave : null;
}
