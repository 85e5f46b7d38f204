import type { StatusView } from "../coordinator/build/build-view.ts";
import { planFileName } from "../domain/plan/brief.ts";
import { waveOfWaitingPlan } from "./waiting.ts";

/** Returns the name of the file of the plan that waits for approval; null if there is none. */
export function waitingPlanName(view: StatusView): string | null {
  const wave = waveOfWaitingPlan(view);
  return wave === null ? null : planFileName(view.build.id, wave.number);
}
