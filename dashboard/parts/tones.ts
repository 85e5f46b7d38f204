/** The colour in which a status is shown. */
export type Tone = "good" | "bad" | "wait" | "run" | "fix" | "idle";

const tones: Readonly<Record<string, Tone>> = {
  passed: "good",
  completed: "good",
  succeeded: "good",
  ready: "good",
  active: "good",
  allow: "good",
  failed: "bad",
  blocked: "bad",
  lost: "bad",
  dead: "bad",
  refused: "bad",
  "timed-out": "bad",
  "over-budget": "bad",
  waiting: "wait",
  paused: "wait",
  inconclusive: "wait",
  absent: "wait",
  running: "run",
  joining: "run",
  gating: "run",
  starting: "run",
  finishing: "run",
  requested: "run",
  fixing: "fix",
};

export const toneOf = (status: string): Tone => tones[status] ?? "idle";

/** Whether something with this status is at work now. */
export const isMoving = (status: string): boolean =>
  ["running", "joining", "gating", "fixing", "starting", "finishing", "cancelling"].includes(status);

const severities: Readonly<Record<string, Tone>> = { critical: "bad", high: "bad", medium: "wait", low: "idle" };
export const toneOfSeverity = (severity: string): Tone => severities[severity] ?? "idle";

/** Whether a build with this status is not over. */
export const isOpen = (status: string): boolean => ["queued", "running", "waiting", "cancelling"].includes(status);
