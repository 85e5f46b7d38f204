import { waitingPlanName } from "../../api/waiting-plan.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { type Config, planFilePath } from "../parts.ts";

/** Returns the file of the plan that waits for approval; null if there is none. */
export function waitingPlanFile(config: Config, view: BuildView): string | null {
  const name = waitingPlanName(view);
  return name === null ? null : planFilePath(config, name);
}
