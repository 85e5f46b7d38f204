import { waveOfWaitingPlan } from "../../api/waiting.ts";
import type { BuildView } from "../../coordinator/build/read-build.ts";
import { planFileName } from "../../domain/plan/brief.ts";
import { type Config, planFilePath } from "../parts.ts";

/** Returns the file of the plan that waits for approval; null if there is none. */
export function waitingPlanFile(config: Config, view: BuildView): string | null {
  const wave = waveOfWaitingPlan(view);
  return wave === null ? null : planFilePath(config, planFileName(view.build.id, wave.number));
}
