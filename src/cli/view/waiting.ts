import type { AttemptView, BuildView, TaskView, WaveView } from "../../coordinator/build/read-build.ts";
import { makesPlan } from "../../domain/brief.ts";
import { waveOfWaitingPlan } from "./plan-lines.ts";

// What a task or build waits for, in words.

export const currentWave = (view: BuildView): WaveView | null => view.waves.at(-1) ?? null;

/** The task's open attempt; null if it has none. */
export function liveAttempt(view: BuildView, taskKey: string): AttemptView | null {
  const wave = currentWave(view);
  return wave?.attempts.find((attempt) => attempt.taskKey === taskKey && attempt.status !== "settled") ?? null;
}

/** What the task waits for; null if it runs or is over. */
export function waitsFor(view: BuildView, task: TaskView): string | null {
  if (task.status === "pending") return pendingFor(view, task);
  if (task.status === "joining") return "the other tasks of the wave";
  if (task.status !== "assigned") return null;
  const attempt = liveAttempt(view, task.key);
  if (attempt !== null) return "its tree";
  return `capacity (${runningCount(view)} at work)`;
}

const runningCount = (view: BuildView): number =>
  currentWave(view)?.attempts.filter((attempt) => attempt.status !== "settled").length ?? 0;

function pendingFor(view: BuildView, task: TaskView): string {
  const states = new Map(view.tasks.map((candidate) => [candidate.key, candidate.status]));
  const missing = task.definition.dependsOn.filter((key) => {
    const status = states.get(key);
    return status !== "completed" && status !== "removed";
  });
  if (missing.length > 0) return listed(missing);
  const wave = currentWave(view);
  if (wave === null) return "the first wave";
  if (wave.status === "gating" || wave.status === "fixing") return `the gates of wave ${wave.number}`;
  return ["passed", "failed"].includes(wave.status) ? "the next wave" : `wave ${wave.number} to pass`;
}

function listed(keys: readonly string[]): string {
  const shown = keys.slice(0, 3).join(", ");
  return keys.length > 3 ? `${shown} and ${keys.length - 3} more` : shown;
}

/** What a build is doing or waiting for. */
export function phaseOf(view: BuildView): string {
  const { build } = view;
  const wave = currentWave(view);
  switch (build.status) {
    case "queued":
      return "waiting for an earlier build of its project";
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

function runningPhase(view: BuildView, wave: WaveView | null): string {
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

function gateAtWork(wave: WaveView): string {
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
