import type { BuildRow, TaskRow } from "../../store/port.ts";

/** Whether no task is left for a later wave. */
const isLastWave = (tasks: readonly TaskRow[]): boolean => !tasks.some((task) => task.status === "pending");

export function notDue(
  gate: { from: string | null; when: "each" | "final" },
  tasks: readonly TaskRow[],
): { kind: "verdict"; verdict: "not-due"; note: string } | null {
  const say = (note: string) => ({ kind: "verdict" as const, verdict: "not-due" as const, note });
  const from = gate.from === null ? undefined : tasks.find((task) => task.key === gate.from);
  if (from !== undefined && from.status !== "completed") return say(`not due until task ${from.key} is joined`);
  if (gate.when === "final" && !isLastWave(tasks)) return say("not due until the last wave");
  return null;
}

/** Whether to boot the preview: once `gates.integration.from` is joined, or in the last wave. */
export function previewIsDue(build: BuildRow, tasks: readonly TaskRow[]): boolean {
  if (build.plan.preview === null) return false;
  const { integration } = build.plan.gates;
  if (integration !== false && integration.from !== null) {
    return tasks.some((task) => task.key === integration.from && task.status === "completed");
  }
  return isLastWave(tasks);
}
