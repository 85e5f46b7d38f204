import type { BuildRow, TaskRow } from "../../store/port.ts";

/** Whether anything is still to come after this wave. */
const isLastWave = (tasks: readonly TaskRow[]): boolean => !tasks.some((task) => task.status === "pending");

export function notDue(
  gate: { from: string | null; when: "each" | "final" },
  tasks: readonly TaskRow[],
): { kind: "verdict"; verdict: "not-due"; note: string } | null {
  const say = (note: string) => ({ kind: "verdict" as const, verdict: "not-due" as const, note });
  const from = gate.from === null ? undefined : tasks.find((task) => task.key === gate.from);
  if (from !== undefined && from.status !== "completed") return say(`due once task ${from.key} is joined`);
  if (gate.when === "final" && !isLastWave(tasks)) return say("due in the last wave");
  return null;
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
