import type { CheckConclusion } from "../domain/events/outside.ts";

const conclusions: Readonly<Record<CheckConclusion, readonly string[]>> = {
  passed: ["passed", "success", "succeeded", "neutral", "skipped", "ok"],
  failed: ["failed", "failure", "error", "errored", "timed_out", "action_required", "startup_failure"],
  cancelled: ["cancelled", "canceled", "stale", "aborted"],
};

/** Translates a CI system's word for how a check ended; null for an unknown word. */
export function conclusionOf(word: string): CheckConclusion | null {
  const known = Object.entries(conclusions).find(([, words]) => words.includes(word.toLowerCase()));
  return known === undefined ? null : (known[0] as CheckConclusion);
}
