import type { BuildView } from "../coordinator/build/read-build.ts";
import { planFileName } from "../coordinator/names.ts";
import { type Config, planFilePath } from "./parts.ts";
import { waveOfWaitingPlan } from "./view/plan-lines.ts";

/** Where the plan is that waits for a person; null when none does. */
export function waitingPlanFile(config: Config, view: BuildView): string | null {
  const wave = waveOfWaitingPlan(view);
  return wave === null ? null : planFilePath(config, planFileName(view.build.id, wave.number));
}
