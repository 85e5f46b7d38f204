import { elapsedMs } from "../../api/build-result.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { duration } from "../output/format.ts";

/** The elapsed time in words. For a build that was resumed it includes the pauses, and says so. */
export function elapsedText(view: BuildView, now: Date): string {
  const elapsed = duration(elapsedMs(view, now));
  return view.build.epoch === 0 ? elapsed : `${elapsed} since its first start`;
}
